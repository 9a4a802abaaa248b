"""Finds the engines of an app: the one with the outbox's tables, and all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from flask import Flask
from sqlalchemy import Engine

from ...domain.errors import ConfigurationError
from ...store.connection.drivers import unsuited

Found = TypeVar("Found")


def engine_of(app: Flask, db: Any, given: Engine | None) -> Engine:
    """Return the engine of our tables: the `given` one, or Flask-SQLAlchemy's default.

    Raises ConfigurationError for a driver or a pool with which the outbox cannot work.
    """
    found = given
    if found is None:
        found = _asked_of(app, lambda: db.engine)
    if found is not None and (reason := unsuited(found)):
        raise ConfigurationError(reason)
    engine: Engine = found
    return engine


def is_known(app: Flask, given: Engine | None) -> bool:
    """Return whether the engine is known already: Flask-SQLAlchemy may be set up later."""
    return given is not None or "sqlalchemy" in app.extensions


def engines_of(app: Flask, given: Engine | None) -> list[Engine]:
    """Return every engine of the app, those of Flask-SQLAlchemy's binds included."""
    found = [] if given is None else [given]
    extension = app.extensions.get("sqlalchemy")
    if extension is not None:
        found += _asked_of(app, lambda: list(extension.engines.values()))
    return found


def _asked_of(app: Flask, ask: Callable[[], Found]) -> Found:
    """Return what `ask` returns with this app as the current one.

    The end of an app context removes Flask-SQLAlchemy's session. Where sessions belong to threads,
    that would be the caller's session, with its transaction. So this context is never popped: it is
    pushed in a copy of the caller's context variables, and dropped with that copy.
    """

    def answer() -> Found:
        app.app_context().push()
        return ask()

    return copy_context().run(answer)
