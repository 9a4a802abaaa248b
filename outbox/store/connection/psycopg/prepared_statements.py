"""Keeps psycopg from preparing statements where a pool such as PgBouncer precedes PostgreSQL.

psycopg prepares a statement when it runs for the sixth time. In a pool's transaction mode, the next
transaction may get another server connection. That may lack the statement, or have another client's
of the same name. On a direct connection preparing saves the planning: a third of a window's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine

from ..facts import facts_of

if TYPE_CHECKING:
    from ..database import Database

_DIRECT = "outbox_direct"
"""The key in a connection's `info`: whether the connection is direct, without a pool between."""


def is_safe(connection: Connection) -> bool:
    """Return whether no care is needed: the driver never prepares, or the connection is direct."""
    if connection.info.get(_DIRECT):
        return True
    return getattr(_driver(connection), "prepare_threshold", None) is None


def unprepared(connection: Connection) -> AbstractContextManager[None]:
    """Keep the driver from preparing statements in the block, unless preparing is safe.

    After the block the owner's own setting holds again.
    """
    return _SAFE if is_safe(connection) else _without(connection)


_SAFE = nullcontext()  # for every window and every enqueue: a generator would cost more


@contextmanager
def _without(connection: Connection) -> Iterator[None]:
    driver = _driver(connection)
    threshold = driver.prepare_threshold
    driver.prepare_threshold = None
    try:
        yield
    finally:
        driver.prepare_threshold = threshold


def is_known(connection: Connection) -> bool:
    """Return whether it is known if the connection is direct, or does not matter to the driver."""
    if _DIRECT in connection.info:
        return True
    return not hasattr(_driver(connection), "prepare_threshold")


def learn(connection: Connection, backend: int) -> None:
    """Note whether the connection is direct; `backend` is the server's `pg_backend_pid()`.

    A pool reports its own numbers to its clients instead of the server's process id.
    """
    connection.info[_DIRECT] = backend == _driver(connection).info.backend_pid


def _driver(connection: Connection) -> Any:
    """Return the driver's own connection.

    SQLAlchemy's adapter of an asynchronous one does not pass on all of its attributes.
    """
    return connection.connection.driver_connection


def asked(connection: Connection) -> AbstractContextManager[None]:
    """Do as `unprepared` does; first find out, in one round trip, if the connection is direct."""
    if is_safe(connection):
        return _SAFE
    if _DIRECT not in connection.info:
        with _without(connection):
            learn(connection, connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
    return unprepared(connection)


def unsafe(engine: Engine) -> list[str]:
    """Return a warning if the app's own statements would be prepared behind such a pool."""
    if not facts_of(engine.dialect.name).prepares:
        return []
    with engine.connect() as connection:
        if asked(connection) is _SAFE:
            return []
    return [
        "a pool stands before PostgreSQL, and psycopg prepares the app's statements: in transaction"
        ' mode they fail, unless the engine has connect_args={"prepare_threshold": None}'
    ]


def pooler(database: Database) -> list[str]:
    """Return a line if a pool stands before PostgreSQL, with its mode if that can be seen."""
    if not database.facts.prepares:
        return []

    def look(first: Connection) -> list[str]:
        server = _server(first)
        info = getattr(_driver(first), "info", None)
        if getattr(info, "backend_pid", server) == server:
            return []
        # Between transactions, only a pool in session mode keeps the server's connection for its
        # client. Otherwise the next client gets it, because a pool takes the one used last.
        is_shared = database.connections > 1 and database.read(_server) == server
        mode = "in transaction mode" if is_shared else "most likely in session mode"
        return [_POOLER.format(mode=mode)]

    return database.read(look)


_POOLER = (
    "a pool such as PgBouncer stands before PostgreSQL, {mode}: the outbox prepares no"
    " statements there, and works in both modes"
)


def _server(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
