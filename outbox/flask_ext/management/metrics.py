"""The metrics: what the tables tell, and the workers that wrote themselves down there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from ...domain.fleet import BEAT, WorkerState
from ...domain.metrics.families import Family
from ...domain.metrics.outbox_families import outbox_families, up
from ...store.bounded_waits import bounded_reads
from ...store.scrape import scrape
from .workers import states

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


def families(runtime: Runtime) -> tuple[Family, ...]:
    """Return the metrics now, by one statement; only `outbox_up` 0 where the database is away.

    A monitor is to see the difference between an app that is away and a database that is. So this
    raises no error of the database.
    """
    database, routes = runtime.database, runtime.routes
    names = [server.name for server in runtime.servers]
    pairs = [(one.name, route) for route in routes.names for one in routes.servers_of(route)]

    def look(connection: Connection) -> tuple[Family, ...]:
        found = scrape(connection, database)
        known = zip(found.workers, states(found.workers), strict=True)
        by_state = Counter[WorkerState](
            state
            for worker, (state, is_missed) in known
            if worker.pool != BEAT and (is_missed or state is not WorkerState.DEAD)
        )
        return outbox_families(found, servers=names, routes=pairs, workers=by_state)

    try:
        with bounded_reads(database):
            return database.read(look)
    except SQLAlchemyError:
        return (up(is_up=False),)
