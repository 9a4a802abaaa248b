"""Checks that a session's engine leads to the workers' tables: same database, same schema."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakSet

from sqlalchemy import Connection, Pool

from ...domain.errors import ConfigurationError
from ..backend import backend_of
from ..connection.database import Database
from ..schema.table_names import refuse_moved
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

    def refuse_another(self, connection: Connection, database: Database) -> None:
        """Raise ConfigurationError if the connection leads to other tables than the outbox's.

        If their pools differ, both databases are asked, once per pool.
        """
        engine, pool = database.engine, connection.engine.pool
        if connection.get_execution_options() is not engine.get_execution_options():
            refuse_moved(connection, database.tables.email, engine)
        if pool is engine.pool or pool in self._same:
            return
        refuse_unread(connection)
        database.refuse_busy()
        with engine.connect() as own:
            if database_of(own) != database_of(connection):
                raise ConfigurationError(_ELSEWHERE)
        self._same.add(pool)


def database_of(connection: Connection) -> Hashable:
    """Return a value that is equal only for connections to the same database."""
    own = backend_of(connection.dialect.name).identity
    if own is not None:
        return own(connection)
    url = connection.engine.url
    return (connection.dialect.name, url.host, url.port, url.database)
