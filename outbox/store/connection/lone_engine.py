"""An engine for one thread that shares no connection and no lock with the app's engine."""

from __future__ import annotations

from sqlalchemy import Engine


def lone_engine(engine: Engine) -> Engine:
    """Return an engine that connects as this one does, with a pool of its own.

    A process that forks while another thread uses this engine leaves nothing to its child that the
    child would use: its own engine's pool has other locks and other connections. Call its `dispose`
    after each use, so that no idle connection is inherited either: mysqlclient would end it in the
    child, for both.
    """
    return Engine(
        engine.pool.recreate(),
        engine.dialect,
        engine.url,
        execution_options=dict(engine.get_execution_options()),
    )
