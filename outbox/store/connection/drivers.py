"""The databases' drivers and pools with which the outbox works, and what to say of others."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.pool import AssertionPool, SingletonThreadPool, StaticPool

from .facts import facts_of

_OF_ONE = (AssertionPool, SingletonThreadPool, StaticPool)
"""Pools with one connection for all threads, or for each: ours would be the caller's. A database in
memory has no other, see `memory`."""


def unsuited(engine: Engine) -> str | None:
    """Return why the outbox cannot work on this engine, and the remedy; None where it can.

    Of a dialect that is not in the list nothing is known, and nothing is said.
    """
    dialect = engine.dialect
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


def in_memory(engine: Engine) -> bool:
    """Return whether the database is SQLite's in memory: no other process sees it."""
    url = engine.url
    name = url.database or ":memory:"
    is_memory = ":memory:" in name or "mode=memory" in name or url.query.get("mode") == "memory"
    return facts_of(engine.dialect.name).is_file and is_memory
