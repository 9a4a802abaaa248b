"""No statement of ours is prepared where a pool such as PgBouncer stands before PostgreSQL.

psycopg prepares what it runs for the sixth time. In such a pool's transaction mode the next
transaction may find a connection of the server that lacks the statement, or has another client's of
the same name. Where nobody stands between, it saves the planning: a third of a window's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Connection, Engine

from .facts import facts_of

_DIRECT = "outbox_direct"
"""The key of a connection's `info` that tells, as long as it lives, that nobody stands between."""


def is_safe(connection: Connection) -> bool:
    """Return whether the driver may prepare: it never does, or the connection is direct."""
    if connection.info.get(_DIRECT):
        return True
    driver = connection.connection.dbapi_connection
    return getattr(driver, "prepare_threshold", None) is None


def unprepared(connection: Connection) -> AbstractContextManager[None]:
    """Have the driver prepare nothing in the block, unless it is safe.

    Afterwards its owner's own setting holds again.
    """
    return _SAFE if is_safe(connection) else _without(connection)


_SAFE = nullcontext()  # for every window and every enqueue: a generator would cost more


@contextmanager
def _without(connection: Connection) -> Iterator[None]:
    driver: Any = connection.connection.dbapi_connection
    threshold = driver.prepare_threshold
    driver.prepare_threshold = None
    try:
        yield
    finally:
        driver.prepare_threshold = threshold


def is_known(connection: Connection) -> bool:
    """Return whether it was found out already, or does not matter with this driver."""
    if _DIRECT in connection.info:
        return True
    return not hasattr(connection.connection.dbapi_connection, "prepare_threshold")


def learn(connection: Connection, backend: int) -> None:
    """Note the process, by `pg_backend_pid()`, that ran a statement of this connection.

    A pool gives its clients numbers of its own making in the place of the server's.
    """
    driver: Any = connection.connection.dbapi_connection
    connection.info[_DIRECT] = backend == driver.info.backend_pid


def ask(connection: Connection) -> None:
    """Find it out, in one round trip."""
    if not is_known(connection):
        with unprepared(connection):
            learn(connection, connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


def unsafe(engine: Engine) -> list[str]:
    """Tell where the app's own statements would be prepared behind such a pool."""
    if not facts_of(engine.dialect.name).prepares:
        return []
    with engine.connect() as connection:
        ask(connection)
        driver = connection.connection.dbapi_connection
        if getattr(driver, "prepare_threshold", None) is None or connection.info[_DIRECT]:
            return []
    return [
        "a pool stands before PostgreSQL, and psycopg prepares the app's statements: in transaction"
        ' mode they fail, unless the engine has connect_args={"prepare_threshold": None}'
    ]
