"""A result must reach the table: writing goes on whatever the database answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ...store.connection.error_codes import ANSWERS, describe, is_refusal
from . import shutdown

Result = TypeVar("Result")

_log = logging.getLogger("outbox")

FIRST_WAIT = 0.1
LONGEST_WAIT = 2.0
GRACE = 10.0
"""Seconds that a worker which is asked to stop still tries. What it cannot record is in doubt."""


def until_written(
    write: Callable[[], Result], *, meanwhile: Callable[[], object] = lambda: None
) -> Result:
    """Run `write` until the database takes it, however long it is away or whatever it answers.

    A worker without its database has nothing better to do, and a result that is not recorded is a
    email in doubt. Writes are guarded by their token, so one that is repeated does no harm. Only an
    error that says that the data is refused is raised. `meanwhile` is called before each wait.
    """
    wait, stop_at = FIRST_WAIT, float("inf")
    while True:
        try:
            return write()
        except ANSWERS as error:
            if is_refusal(error):
                raise
            if shutdown.requested() and stop_at == float("inf"):
                stop_at = time.monotonic() + GRACE
            if time.monotonic() > stop_at:
                raise
            _log.warning("outbox: the database failed and is asked again (%s)", describe(error))
            meanwhile()
            time.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 2)
