"""Checks that the outbox works with an engine's driver and pool."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.pool import AssertionPool, SingletonThreadPool, StaticPool

from .facts import facts_of, is_known, is_possible

_OF_ONE = (AssertionPool, SingletonThreadPool, StaticPool)
"""Pools with one connection for all threads, or for each: the outbox would share the caller's.
They are allowed only for a database in memory, see `sqlite.memory`."""


def unsuited(engine: Engine) -> str | None:
    """Return why the outbox cannot work on this engine, and the remedy; None if it can."""
    dialect = engine.dialect
    if not is_possible(dialect.name):
        return (
            f"the outbox does not work on the database {dialect.name}, whose clock it cannot read:"
            " use PostgreSQL, MariaDB, MySQL or SQLite"
        )
    facts = facts_of(dialect.name)
    if facts.drivers and (dialect.driver not in facts.drivers or dialect.is_async):
        urls = ", ".join(f"{dialect.name}+{driver}://" for driver in facts.drivers)
        install = f" (pip install 'flask-mail-outbox[{facts.extra}]')" if facts.extra else ""
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


def untried(engine: Engine) -> list[str]:
    """Return a warning if this is a database on which nobody has tried the outbox."""
    name = engine.dialect.name
    if is_known(name):
        return []
    return [f"no test of the outbox runs on {name}: it uses portable statements there"]


def in_memory(engine: Engine) -> bool:
    """Return whether this is an SQLite database in memory, which no other process sees."""
    url = engine.url
    name = url.database or ":memory:"
    is_memory = ":memory:" in name or "mode=memory" in name or url.query.get("mode") == "memory"
    return facts_of(engine.dialect.name).is_file and is_memory
