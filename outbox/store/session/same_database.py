"""Checks that a session's engine leads to the workers' database."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakSet

from sqlalchemy import Connection, Engine, Pool

from ...domain.errors import ConfigurationError
from ..backend import backend_of
from ..connection.sqlite_memory import refuse_busy
from .unread_results import refuse_unread

_ELSEWHERE = (
    "the session's engine leads to another database than the outbox's, and no worker sends emails"
    " from there. Give a session on the outbox's database, or make that database the outbox's with"
    " engine=… of init_app"
)


class Identity:
    """Compares the databases behind engines. URLs are not enough: a pool may connect elsewhere."""

    def __init__(self) -> None:
        self._same: WeakSet[Pool] = WeakSet()

    def refuse_another(self, connection: Connection, engine: Engine) -> None:
        """Raise ConfigurationError if the connection is to another database than the engine.

        If their pools differ, both databases are asked, once per pool.
        """
        pool = connection.engine.pool
        if pool is engine.pool or pool in self._same:
            return
        refuse_unread(connection)
        refuse_busy(engine)
        with engine.connect() as own:
            if _database_of(own) != _database_of(connection):
                raise ConfigurationError(_ELSEWHERE)
        self._same.add(pool)


def _database_of(connection: Connection) -> Hashable:
    """Return a value that is equal only for connections to the same database."""
    own = backend_of(connection.dialect.name).identity
    if own is not None:
        return own(connection)
    url = connection.engine.url
    return (connection.dialect.name, url.host, url.port, url.database)
