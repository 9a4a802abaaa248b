"""The metrics: what the tables tell, and the workers that wrote themselves down there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from ...domain.fleet import BEAT, WorkerState
from ...domain.metrics.families import Family
from ...domain.metrics.outbox_families import outbox_families, up
from ...store.control import fleet
from ...store.scrape import scrape
from .workers import details

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


def families(runtime: Runtime) -> tuple[Family, ...]:
    """Return the metrics now, by two statements; only `outbox_up` 0 where the database is away.

    A monitor is to see the difference between an app that is away and a database that is. So this
    raises no error of the database.
    """
    database, names = runtime.database, [server.name for server in runtime.servers]

    def look(connection: Connection) -> tuple[Family, ...]:
        known = details(fleet.workers(connection, database), {})
        states = Counter[WorkerState](
            one.state
            for one in known
            if one.pool != BEAT and (one.is_missed or one.state is not WorkerState.DEAD)
        )
        return outbox_families(scrape(connection, database), servers=names, workers=states)

    try:
        return database.read(look)
    except SQLAlchemyError:
        return (up(is_up=False),)
