"""An engine for one thread that shares no connection and no lock with the app's engine."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event


def lone_engine(engine: Engine) -> Engine:
    """Return an engine that connects as this one does, with a pool of its own.

    The process may fork while a thread uses this engine. That does no harm to the child: the
    child's own engine has other locks and other connections. Call `dispose` after each use, so that
    the child inherits no idle connection either: mysqlclient would end it there, for both.
    """
    made = Engine(
        engine.pool.recreate(),
        engine.dialect,
        engine.url,
        execution_options=dict(engine.get_execution_options()),
    )
    event.listen(made, "connect", _prepare_nothing)
    return made


def _prepare_nothing(driver: Any, _: object) -> None:
    # A connection runs a few statements, each once: preparing them would save nothing. Without it
    # nobody has to ask whether a pool such as PgBouncer stands before PostgreSQL.
    if hasattr(driver, "prepare_threshold"):
        driver.prepare_threshold = None
