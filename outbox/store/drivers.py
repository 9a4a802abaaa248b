"""The databases' drivers and pools with which the outbox works, and what to say of others."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.pool import AssertionPool, StaticPool

from ..domain.errors import ConfigurationError

_DRIVERS = {
    "postgresql": ("psycopg", "psycopg2", "psycopg2cffi"),
    "mysql": ("pymysql", "mysqldb", "cymysql"),
    "mariadb": ("pymysql", "mysqldb", "cymysql"),
    "sqlite": ("pysqlite",),
}
"""By dialect. With another driver messages are enqueued and none is ever sent, as with pg8000."""

_EXTRAS = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}

_BUSY = (
    "SQLite's database in memory has one connection, and a transaction is open on it: commit it or"
    " roll it back first, or use a database in a file"
)


def unsuited(engine: Engine) -> str | None:
    """Return why the outbox cannot work on this engine, and the remedy; None where it can.

    Of a dialect that is not in the list nothing is known, and nothing is said.
    """
    dialect = engine.dialect
    known = _DRIVERS.get(dialect.name)
    if known is not None and (dialect.driver not in known or dialect.is_async):
        urls = ", ".join(f"{dialect.name}+{driver}://" for driver in known)
        extra = _EXTRAS.get(dialect.name)
        install = f" (pip install 'flask-mail-outbox[{extra}]')" if extra else ""
        what = ", which is asynchronous" if dialect.is_async else ""
        return (
            f"the outbox does not work with the driver {dialect.name}+{dialect.driver}{what}:"
            f" use one of {urls}{install}"
        )
    if isinstance(engine.pool, (AssertionPool, StaticPool)) and not in_memory(engine):
        return (
            f"the outbox does not work with {type(engine.pool).__name__}: a worker renews its lease"
            " beside its transactions, over a connection of its own; use QueuePool or NullPool"
        )
    return None


def refuse_busy(engine: Engine) -> None:
    """Raise ConfigurationError where a look would end the transaction that somebody is in.

    In memory SQLite has one connection for all of a thread, or of the process, and another mode of
    it commits.
    """
    if not in_memory(engine):
        return
    if isinstance(engine.pool, StaticPool):
        driver = engine.pool.connection.dbapi_connection
        is_busy = getattr(driver, "in_transaction", False)
    else:
        lent = engine.pool.connect()
        is_busy = getattr(lent.dbapi_connection, "in_transaction", False)
        lent.close()
    if is_busy:
        raise ConfigurationError(_BUSY)


def in_memory(engine: Engine) -> bool:
    """Return whether the database is SQLite's in memory: no other process sees it."""
    url = engine.url
    name = url.database or ":memory:"
    is_memory = ":memory:" in name or "mode=memory" in name or url.query.get("mode") == "memory"
    return engine.dialect.name == "sqlite" and is_memory
