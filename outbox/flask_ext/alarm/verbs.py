"""The verbs that watch the outbox's health; see `management` for how verbs work."""

from __future__ import annotations

import os
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from ...domain.errors import RowsLocked
from ...store.control.health_mark import turn
from ...worker.process.runtime import Runtime
from ..management.management import Management
from ..management.results import Health
from .health_signal import tell
from .note import keep_note, note_of

_NOT_KEPT = (SQLAlchemyError, RowsLocked)
"""The database is away, or lacks the tables; or another transaction has locked the mark."""


class Watching(Management):
    """These verbs and those of `Management`; `Outbox` inherits them."""

    def watch(
        self, max_age: float | None = None, *, note: str | os.PathLike[str] | None = None
    ) -> Health | None:
        """Examine the health, and return it if it has turned since anybody last watched; else None.

        Then it also sends the signal `outbox_health_changed`. Call it each minute, from a process
        that is neither worker nor beat. The table keeps what was last seen, so of several processes
        one tells. Where the database is away or read-only, or the mark is locked, the table keeps
        nothing. Then each process tells once, and tells again when all is well: its memory keeps
        that, or the file `note`, for processes that live for one call.
        """
        runtime = self._writer_runtime
        keep_note(runtime.app, note)
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
        if health is None:
            return
        runtime = self._writer_runtime
        if health.healthy or not note_of(runtime.app).remove():
            _turn(runtime, healthy=not health.healthy)


def _has_turned(runtime: Runtime, health: Health) -> bool:
    """Return whether to tell. Once the table keeps it, a failure that lasts is told once more."""
    note = note_of(runtime.app)
    try:
        has_turned = _turn(runtime, healthy=health.healthy)
    except _NOT_KEPT:
        return not health.healthy and note.make()
    was_noted = note.remove()
    return has_turned or (was_noted and health.healthy)


def _turn(runtime: Runtime, *, healthy: bool) -> bool:
    return turn(runtime.database, healthy=healthy)
