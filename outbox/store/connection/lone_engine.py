"""An engine for one thread that shares no connection and no lock with the app's engine."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event


def lone_engine(engine: Engine) -> Engine:
    """Return an engine that connects as this one does, with a pool of its own.

    A process that forks while another thread uses this engine leaves nothing to its child that the
    child would use: its own engine's pool has other locks and other connections. Call its `dispose`
    after each use, so that no idle connection is inherited either: mysqlclient would end it in the
    child, for both.
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
    # A connection has a few statements, each once: preparing them would save nothing. So nobody has
    # to ask whether a pool such as PgBouncer stands before PostgreSQL.
    if hasattr(driver, "prepare_threshold"):
        driver.prepare_threshold = None
