"""Tells in the log what keeps statements waiting: a locked table, or a replica that is gone.

The statements themselves only wait, in requests and in workers, and none fails.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...store.connection.database import Database
from ...store.queries.inspect_schema import commit_lines, lock_lines
from ..process.steady_clock import steady
from ..together.seldom import Seldom

_log = logging.getLogger("outbox")

EVERY = 30.0
"""Seconds between two looks."""
LEAST = 10.0
"""Seconds for which a statement must have waited."""
TOLD = 600.0
"""Seconds for which a process tells of it once."""


class LongWaits:
    """Looks seldom, from a thread that has nothing to lock and waits for no replica."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seldom = Seldom(steady)
        self._seldom.note("look")

    def look(self) -> None:
        """Look if it is time, and tell. Raises DBAPIError."""
        if not self._seldom.is_due("look", EVERY):
            return
        self._tell({"event": "table_locked"}, lock_lines(self._database, LEAST))
        self._tell({"event": "commits_wait"}, commit_lines(self._database, LEAST))

    def _tell(self, what: dict[str, str], lines: Sequence[str]) -> None:
        if not lines:
            self._seldom.forget(what["event"])
        elif self._seldom.is_due(what["event"], TOLD):
            for line in lines:
                _log.warning("outbox: %s", line, extra={"outbox": what})
