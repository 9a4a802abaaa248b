"""Repeats a write until the database takes it, so that each known result reaches the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import TypeVar

from ...store.connection.error_codes import ANSWERS, describe, is_refusal
from ...store.connection.privileges import LACKS, lacks_privilege
from ...store.harmless_log import harmless_log
from ..together.seldom import Seldom
from . import shutdown

Result = TypeVar("Result")

FIRST_WAIT = 0.1
LONGEST_WAIT = 2.0
GRACE = 10.0
"""Seconds for which a worker still tries after a shutdown was requested. A result that it cannot
record becomes unknown."""

TOLD_EVERY = 60.0
"""Seconds between two lines of the log about the same error: an outage may last for hours."""

HASTE = 2.0
"""Seconds that a task still waits where its process may be killed at any moment."""


def until_written(
    write: Callable[[], Result],
    *,
    meanwhile: Callable[[], object] = lambda: None,
    ends: Callable[[BaseException], bool] = is_refusal,
) -> Result:
    """Run `write` until the database takes it, whatever it answers meanwhile; return its result.

    A worker cannot work without its database, and an email whose result is not recorded is in
    doubt. Writes are guarded by their token, so a repeated one does no harm. An error is raised
    only where it `ends` the tries, as that of refused data does, or `GRACE` seconds after a
    shutdown was requested. `meanwhile` is called before each wait.
    """
    wait, stop_at, told = FIRST_WAIT, inf, None
    while True:
        try:
            return write()
        except ANSWERS as error:
            if ends(error):
                raise
            if shutdown.requested():
                stop_at = min(stop_at, time.monotonic() + GRACE)
            if time.monotonic() > stop_at:
                raise
            told = told or Seldom(time.monotonic)
            what = f"{describe(error)}; {LACKS}" if lacks_privilege(error) else describe(error)
            if told.is_due(what, TOLD_EVERY):
                harmless_log.warning("outbox: the database failed and is asked again (%s)", what)
            meanwhile()
            time.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 2)
