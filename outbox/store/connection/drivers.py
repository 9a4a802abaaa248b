"""The databases' drivers and pools with which the outbox works, and what to say of others."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.pool import AssertionPool, SingletonThreadPool, StaticPool

_DRIVERS = {
    "postgresql": ("psycopg", "psycopg2", "psycopg2cffi"),
    "mysql": ("pymysql", "mysqldb", "cymysql"),
    "mariadb": ("pymysql", "mysqldb", "cymysql"),
    "sqlite": ("pysqlite",),
}
"""By dialect. With another driver messages are enqueued and none is ever sent, as with pg8000."""

_EXTRAS = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}

_OF_ONE = (AssertionPool, SingletonThreadPool, StaticPool)
"""Pools with one connection for all threads, or for each: ours would be the caller's. A database in
memory has no other, see `memory`."""


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
    if isinstance(engine.pool, _OF_ONE) and not in_memory(engine):
        return (
            f"the outbox does not work with {type(engine.pool).__name__}: its transactions, and the"
            " renewal of a worker's lease beside them, need connections of their own; use QueuePool"
            " or NullPool"
        )
    return None


def in_memory(engine: Engine) -> bool:
    """Return whether the database is SQLite's in memory: no other process sees it."""
    url = engine.url
    name = url.database or ":memory:"
    is_memory = ":memory:" in name or "mode=memory" in name or url.query.get("mode") == "memory"
    return engine.dialect.name == "sqlite" and is_memory
