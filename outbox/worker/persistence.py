"""A result must reach the table: writing goes on through an outage of the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from ..store.database import is_outage
from . import shutdown

Result = TypeVar("Result")

_log = logging.getLogger("outbox")

FIRST_WAIT = 0.1
LONGEST_WAIT = 2.0
GRACE = 10.0
"""Seconds that a worker which is asked to stop still tries. What it cannot record is in doubt."""


def outlast(write: Callable[[], Result]) -> Result:
    """Run `write` until the database takes it, through an outage of whatever length.

    A worker without its database has nothing better to do, and a result that is not recorded is a
    mail in doubt. Writes are guarded by their token, so one that is repeated does no harm. What is
    no outage, such as data that the database refuses, is raised.
    """
    wait, stop_at = FIRST_WAIT, float("inf")
    while True:
        try:
            return write()
        except DBAPIError as error:
            if not is_outage(error):
                raise
            if shutdown.requested() and stop_at == float("inf"):
                stop_at = time.monotonic() + GRACE
            if time.monotonic() > stop_at:
                raise
            _log.warning("outbox: the database does not answer (%s)", type(error.orig).__name__)
            time.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 2)
