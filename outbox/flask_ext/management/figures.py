"""The figures of the outbox, and whether emails leave."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import SQLAlchemyError

from ...store.queries import reports
from ...store.queries.server_status import alerts, standings
from ...store.report_records import Stats
from .arguments import seconds_of
from .check_database import database_findings
from .check_fleet import fleet_findings
from .results import Health

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime

LONGEST_AGE = 1e9


def stats(runtime: Runtime) -> Stats:
    """Return how many emails there are, what waits, and what is wrong."""
    database, names = runtime.database, [server.name for server in runtime.servers]
    found = database.read(lambda connection: reports.stats(connection, database, names))
    redirect_to = runtime.settings.redirect_to or None
    return replace(found, redirect_to=redirect_to, suppressed=runtime.suppressed())


def health(runtime: Runtime, max_age: Any) -> Health:
    """Return whether emails leave; where the database is away, return what is wrong with it."""
    limit = runtime.settings.health_age
    if max_age is not None:
        limit = seconds_of("max_age", max_age, LONGEST_AGE)
    try:
        return _examined(runtime, limit)
    except SQLAlchemyError as error:
        problems = _faults(runtime) or (f"the database: {type(error).__name__}",)
        return Health(healthy=False, limit=limit, problems=problems)


def _examined(runtime: Runtime, limit: float) -> Health:
    database, names = runtime.database, [server.name for server in runtime.servers]
    due, claimed, servers = database.read(
        lambda connection: (
            reports.oldest_due(connection, database),
            reports.oldest_claimed(connection, database),
            standings(connection, database, names),
        )
    )
    raised, is_late = alerts(servers), max(due, claimed) > limit
    return Health(
        healthy=not (is_late or raised),
        limit=limit,
        problems=_nobody(runtime) if is_late else (),
        oldest_due_seconds=due,
        oldest_claimed_seconds=claimed,
        alerts=raised,
        servers=servers,
    )


def _faults(runtime: Runtime) -> tuple[str, ...]:
    """Return what is wrong with the database."""
    return tuple(one.text for one in database_findings(runtime) if one.level == "error")


def _nobody(runtime: Runtime) -> tuple[str, ...]:
    """Return why no worker takes the waiting emails, as far as the workers can tell."""
    app = runtime.find_celery()
    if app is None or runtime.suppressed():
        return ()
    return tuple(one.text for one in fleet_findings(app) if one.level != "ok")
