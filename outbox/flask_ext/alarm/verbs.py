"""The verbs that watch the outbox's health; see `management` for how verbs work."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from ...domain.errors import RowsLocked
from ...store.control.health_mark import turn
from ...worker.process.runtime import Runtime
from ..management.management import Management
from ..management.results import Health
from .health_signal import tell

_NOT_KEPT = (SQLAlchemyError, RowsLocked)
"""The database is away, or lacks the tables; or another transaction has locked the mark."""


class Watching(Management):
    """These verbs and those of `Management`; `Outbox` inherits them."""

    def watch(self, max_age: float | None = None) -> Health | None:
        """Examine the health, and return it if it has turned since anybody last watched; else None.

        Then it also sends the signal `outbox_health_changed`. Call it each minute, from a process
        that is neither worker nor beat. The table keeps what was last seen, so of several processes
        one tells. Where the database is away, or the mark is locked, nothing can be kept: then each
        call tells so.
        """
        runtime = self._writer_runtime
        health = self.health(max_age)
        try:
            if not _has_turned(runtime, health):
                return None
            tell(runtime.app, health)
        except BaseException:  # the process is to end, perhaps before anybody was told
            with suppress(*_NOT_KEPT):  # else the error that came first would be lost
                self.watch_again(health)
            raise
        return health

    def watch_again(self, health: Health | None) -> None:
        """Have the next `watch` tell of this health once more, because nobody could be told.

        With None, which `watch` returns where nothing has turned, it does nothing. Raises
        RowsLocked if the mark stays locked.
        """
        if health is not None:
            _turn(self._writer_runtime, healthy=not health.healthy)


def _has_turned(runtime: Runtime, health: Health) -> bool:
    try:
        return _turn(runtime, healthy=health.healthy)
    except _NOT_KEPT:
        return not health.healthy


def _turn(runtime: Runtime, *, healthy: bool) -> bool:
    return turn(runtime.database, healthy=healthy)
