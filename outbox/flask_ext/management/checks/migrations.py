"""Examines whether Flask-Migrate knows the outbox's tables: what it does not know, it removes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from ....store.session.same_database import database_of
from ...app.engines import engines_of
from .codes import Code
from .finding import Finding, warn

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

_TAKEN_OUT = (
    "flask db migrate would remove the outbox's tables: the metadata of Flask-Migrate's db does not"
    " have them. Call init_app with this db, or with its metadata, before you migrate"
)
_IN_DEFAULT = (
    "flask db migrate would remove the outbox's tables: their metadata names the default schema"
    " {schema}, to which Alembic gives no name. Give init_app a metadata with another schema, and"
    " env.py both metadatas: see docs/reference/sessions.md"
)


def migration_findings(runtime: Runtime) -> list[Finding]:
    """Return a warning if Flask-Migrate would take the outbox's tables for left over.

    The database's default schema is known after the first connection. Tables in another schema are
    of a metadata that was given on purpose, and Alembic does not look at them by itself.
    """
    migrate: Any = runtime.app.extensions.get("migrate")
    db = getattr(migrate, "db", None)
    if db is None:
        return []
    known = getattr(db, "metadatas", None) or {None: db.metadata}  # one for each bind
    email = runtime.tables.email
    if any(email.key in one.tables for one in known.values()):
        return []
    if email.schema not in (None, runtime.database.engine.dialect.default_schema_name):
        return []
    if not _is_reached(runtime, db):
        return []
    text = _TAKEN_OUT if email.schema is None else _IN_DEFAULT.format(schema=email.schema)
    return [warn(text, Code.MIGRATE)]


def _is_reached(runtime: Runtime, db: Any) -> bool:
    """Return whether an engine of db leads to the outbox's database, or nobody can tell."""
    own = runtime.database.engine
    if runtime.app.extensions.get("sqlalchemy") is not db:
        return True
    engines = engines_of(runtime.app, None)
    return any(one.pool is own.pool or _is_same(one, own) for one in engines)


def _is_same(one: Engine, own: Engine) -> bool:
    try:
        with one.connect() as first, own.connect() as second:
            return database_of(first) == database_of(second)
    except SQLAlchemyError:
        return True
