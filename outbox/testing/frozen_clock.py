"""Has the database's clock stand still: in each statement that reads it for the outbox."""

from __future__ import annotations

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
        if not self.is_frozen:
            event.listen(Engine, "before_cursor_execute", self._rewrite, retval=True)
        offset = timedelta(seconds=self._database.offset)
        self.moment = at.astimezone(UTC) - offset

    def thaw(self) -> None:
        """Have the clock go on."""
        if self.is_frozen:
            event.remove(Engine, "before_cursor_execute", self._rewrite)
        self.moment = None

    def _rewrite(
        self,
        connection: Connection,
        cursor: object,  # noqa: ARG002  (SQLAlchemy passes its arguments by their places)
        statement: str,
        parameters: Any,
        *_: object,
    ) -> tuple[str, Any]:
        is_same = _place(connection.engine) == _place(self._database.engine)
        if is_same and self.moment is not None:
            statement = at_moment(statement, self._database.dialect, self.moment)
        return statement, parameters


def _place(engine: Engine) -> tuple[object, ...]:
    """Return where an engine's database is, whatever its driver: sessions may use another one."""
    url = engine.url
    return url.get_backend_name(), url.host, url.port, url.database
