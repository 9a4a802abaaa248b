"""Finds the engines of an app: the one with the outbox's tables, and all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from flask import Flask
from sqlalchemy import Engine, MetaData

from ...domain.errors import ConfigurationError
from ...store.connection.drivers import unsuited

Found = TypeVar("Found")


_NO_BIND = (
    "the outbox's tables are on the bind {key!r}, which Flask-SQLAlchemy does not have: set"
    " SQLALCHEMY_BINDS[{key!r}]"
)
_NO_DEFAULT = (
    "the outbox's tables are on Flask-SQLAlchemy's default database, and there is none: set"
    " SQLALCHEMY_DATABASE_URI, or give init_app metadata=db.metadatas[…] with the bind of the rows"
    " that have emails"
)

_NO_DB = (
    "db=… must be Flask-SQLAlchemy's SQLAlchemy(), but is a {kind}; without Flask-SQLAlchemy give"
    " session=…, metadata=… and engine=…"
)


def metadata_of(db: Any) -> MetaData:
    """Return the metadata of Flask-SQLAlchemy's object; ConfigurationError for another object."""
    found = getattr(db, "metadata", None)
    if not isinstance(found, MetaData):
        cls = db if isinstance(db, type) else type(db)
        # Flask-SQLAlchemy-Lite's class has the same name.
        kind = f"{cls.__name__} of {cls.__module__.partition('.')[0]}"
        raise ConfigurationError(_NO_DB.format(kind=kind))
    return found


def engine_of(app: Flask, db: Any, given: Engine | None, metadata: MetaData) -> Engine:
    """Return the engine of our tables: the `given` one, or that of the metadata's bind.

    A metadata of Flask-SQLAlchemy knows its bind; any other metadata is on the default one. Some
    tests put a connection into an engine's place, to roll back what a test commits. Then it is the
    engine of that connection: an engine, too, has itself as its attribute `engine`.

    Raises ConfigurationError for a bind that is not there, and for a driver or a pool with which
    the outbox cannot work.
    """
    engine: Engine | None = given
    if engine is None:
        engine = asked_of(app, lambda: _bound(db, metadata.info.get("bind_key"))).engine
    if reason := unsuited(engine):
        raise ConfigurationError(reason)
    return engine


def _bound(db: Any, key: str | None) -> Any:
    try:
        return db.engine if key is None else db.engines[key]
    except KeyError:
        raise ConfigurationError((_NO_BIND if key else _NO_DEFAULT).format(key=key)) from None


def is_known(app: Flask, given: Engine | None) -> bool:
    """Return whether the engine is known already: Flask-SQLAlchemy may be set up later."""
    return given is not None or "sqlalchemy" in app.extensions


def engines_of(app: Flask, given: Engine | None) -> list[Engine]:
    """Return every engine of the app, those of Flask-SQLAlchemy's binds included."""
    found = [] if given is None else [given]
    extension = app.extensions.get("sqlalchemy")
    if extension is not None:
        found += [one.engine for one in asked_of(app, lambda: list(extension.engines.values()))]
    return found


def asked_of(app: Flask, ask: Callable[[], Found]) -> Found:
    """Return what `ask` returns with this app as the current one.

    The end of an app context removes Flask-SQLAlchemy's session. Where sessions belong to threads,
    that would be the caller's session, with its transaction. So this context is never popped: it is
    pushed in a copy of the caller's context variables, and dropped with that copy.
    """

    def answer() -> Found:
        app.app_context().push()
        return ask()

    return copy_context().run(answer)
