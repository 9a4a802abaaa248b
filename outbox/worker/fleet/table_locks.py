"""Tells in the log who keeps a whole table of the outbox's from its statements.

The statements themselves only wait, in requests and in workers, and none fails.
"""

from __future__ import annotations

import logging

from ...store.connection.database import Database
from ...store.queries.inspect_schema import lock_lines
from ..process.steady_clock import steady
from ..together.seldom import Seldom

_log = logging.getLogger("outbox")

EVERY = 30.0
"""Seconds between two looks."""
LEAST = 10.0
"""Seconds for which a statement must have waited."""
TOLD = 600.0
"""Seconds for which a process tells of it once."""


class TableLocks:
    """Looks seldom, from a thread that has nothing to lock."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seldom = Seldom(steady)
        self._seldom.note("look")

    def look(self) -> None:
        """Look if it is time, and tell. Raises DBAPIError."""
        if not self._seldom.is_due("look", EVERY):
            return
        lines = lock_lines(self._database, LEAST)
        if not lines:
            self._seldom.forget("tell")
        elif self._seldom.is_due("tell", TOLD):
            for line in lines:
                _log.warning("outbox: %s", line, extra={"outbox": {"event": "table_locked"}})
