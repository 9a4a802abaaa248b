"""Has the database's clock stand still: in each statement that reads it for the outbox."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, event

from ..domain.errors import ConfigurationError
from ..store.connection.database import Database
from ..store.schema.clock import at_moment, can_stand_still


def check_moment(moment: object) -> None:
    """Raise ValueError for anything but a time with a zone."""
    if not isinstance(moment, datetime):
        told = f"the moment must be a datetime, such as datetime(…, tzinfo=UTC), not {moment!r}"
        raise ValueError(told)
    if moment.tzinfo is None:
        raise ValueError("the moment needs a time zone, such as datetime(…, tzinfo=UTC)")


_frozen: tuple[FrozenClock, ...] = ()
_changes = threading.Lock()


class FrozenClock:
    """Puts a moment in the place of a database's clock, on all engines of that database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.moment: datetime | None = None  # in UTC, without the outbox's offset

    @property
    def is_frozen(self) -> bool:
        """Whether the clock stands still."""
        return self.moment is not None

    def freeze(self, at: datetime) -> None:
        """Have the outbox's time, its offset included, be this aware moment from now on."""
        if not can_stand_still(self._database.dialect):
            raise ConfigurationError(f"the clock of {self._database.dialect} cannot be frozen")
        offset = timedelta(seconds=self._database.offset)
        self.moment = at.astimezone(UTC) - offset
        self._have_heard(True)

    def thaw(self) -> None:
        """Have the clock go on."""
        self._have_heard(False)
        self.moment = None

    def rewritten(self, connection: Connection, statement: str) -> str:
        """Return a statement of any engine with the moment, if it is for this database."""
        moment = self.moment  # another thread may have the clock go on
        if moment is None or _place(connection.engine) != _place(self._database.engine):
            return statement
        return at_moment(statement, self._database.dialect, moment)

    def _have_heard(self, is_frozen: bool) -> None:
        global _frozen
        with _changes:
            others = tuple(each for each in _frozen if each is not self)
            _frozen = (*others, self) if is_frozen else others


def _place(engine: Engine) -> tuple[object, ...]:
    """Return where an engine's database is, whatever its driver: sessions may use another one."""
    url = engine.url
    return url.get_backend_name(), url.host, url.port, url.database


def _rewrite(
    connection: Connection, _cursor: object, statement: str, parameters: Any, *_: object
) -> tuple[str, Any]:
    for clock in _frozen:
        statement = clock.rewritten(connection, statement)
    return statement, parameters


# At the import, and for good. SQLAlchemy goes through its listeners without a lock: if one came or
# went while another thread executes a statement, that statement would fail.
event.listen(Engine, "before_cursor_execute", _rewrite, retval=True)
