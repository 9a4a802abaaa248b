"""The figures of the outbox, and whether emails leave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from ...domain.config.enqueue_options import MAX_TAG, check_name
from ...domain.counted import counted
from ...domain.figures.figures import Figures
from ...domain.figures.spans import Period
from ...store.control import beat
from ...store.control.pause import paused
from ...store.instance import examine
from ...store.instance.held import first_held
from ...store.queries import progress as queries
from ...store.queries import reports, standstill, waiting
from ...store.queries.inspect_schema import older_schema
from ...store.queries.server_status import alerts, standings
from ...store.report_records import Backlog, Progress, Stats
from ...store.rollup.read import read_figures
from ...worker.process.runtime import NO_CELERY
from .arguments import seconds_of
from .checks.crashing import crashing_emails, crashing_line
from .checks.database import database_findings
from .checks.fleet import UNSEEN, beat_finding, fleet_findings
from .checks.fleet_table import RESTART, still_findings, unheard_findings
from .checks.privacy import missing_soon
from .database_line import database_line
from .results import Fleet, Health
from .server_lines import SUPPRESSED
from .workers import workers

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime

LONGEST_AGE = 1e9
HELD = "emails are held since a restore (flask outbox held, flask outbox release)"


@dataclass(frozen=True, kw_only=True)
class Overview:
    """How things stand."""

    health: Health
    backlog: Backlog
    fleet: Fleet


def stats(runtime: Runtime) -> Stats:
    """Return how many emails there are, what waits, and what is wrong."""
    database, names = runtime.database, [server.name for server in runtime.servers]
    found = database.read(lambda connection: reports.stats(connection, database, names))
    redirect_to = runtime.settings.redirect_to or None
    return replace(found, redirect_to=redirect_to, suppressed=runtime.suppressed())


def progress(runtime: Runtime, tag: Any) -> Progress:
    """Return how far the emails of a tag have come, or all emails."""
    database, term = runtime.database, runtime.settings.lease
    name = check_name("tag", tag, MAX_TAG)
    return database.read(
        lambda connection: queries.progress(connection, database, lease_seconds=term, tag=name)
    )


def backlog(runtime: Runtime) -> Backlog:
    """Return how many emails wait and are in flight, counted up to a limit."""
    database = runtime.database
    return database.read(lambda connection: waiting.backlog(connection, database))


def attempts(runtime: Runtime, last: Any) -> Figures:
    """Return what became of the attempts of the last hour, day or week."""
    database, period = runtime.database, Period.of(last)
    return database.read(lambda connection: read_figures(connection, database, period))


def health(runtime: Runtime, max_age: Any, *, ask: bool) -> Health:
    """Return whether emails leave; where the database is away, return what is wrong with it.

    `ask`: the workers may be asked over the broker.
    """
    limit = runtime.settings.health_age
    if max_age is not None:
        limit = seconds_of("max_age", max_age, LONGEST_AGE)
    try:
        return _examined(runtime, limit, ask=ask)
    except SQLAlchemyError as error:
        problems = _faults(runtime) or (database_line(runtime.database.engine, error),)
        return Health(healthy=False, limit=limit, problems=problems)


def overview(runtime: Runtime) -> Overview:
    """Return what `health`, `backlog` and `workers` tell, each read once; no worker is asked."""
    waits, fleet = backlog(runtime), workers(runtime)
    health = _examined(runtime, runtime.settings.health_age, ask=False, waits=waits, fleet=fleet)
    return Overview(health=health, backlog=waits, fleet=fleet)


def _examined(
    runtime: Runtime,
    limit: float,
    *,
    ask: bool,
    waits: Backlog | None = None,
    fleet: Fleet | None = None,
) -> Health:
    """Examine the tables, but for what is known of them already."""
    database, names = runtime.database, [server.name for server in runtime.servers]

    def look(connection: Connection) -> tuple[Health, float]:
        if waits is None:
            oldest = standstill.oldest_due(connection, database)
            due = standstill.due(connection, database)
        else:
            oldest, due = waits.oldest_due_seconds, waits.due
        taken = standstill.taken(connection, database, limit, oldest)
        found = standings(connection, database, names)
        health = Health(
            healthy=True,
            limit=limit,
            problems=(),
            oldest_due_seconds=oldest,
            oldest_claimed_seconds=taken.oldest_claimed,
            due=due,
            claimed=taken.claimed,
            stuck=taken.stuck,
            beat_seconds=beat.age(connection, database) if fleet is None else fleet.beat_seconds,
            alerts=alerts(found),
            servers=found,
        )
        return health, standstill.longest_overdue(connection, database)

    health, overdue = database.read(look)
    fleet, place = fleet or workers(runtime), examine.look(database, runtime.settings.instance)
    problems = (
        *([behind] if (behind := older_schema(database)) else []),
        *missing_soon(runtime),
        *_problems(runtime, health, overdue, fleet, place.refusal, ask=ask),
    )
    may_hold = place.instance is not None and place.instance.has_held
    held = (HELD,) if may_hold and database.read(lambda c: first_held(c, database)) else ()
    lost = crashing_emails(runtime)
    amiss = (text for text in fleet.problems if text not in problems)
    warnings = (*held, *map(crashing_line, lost), *amiss)
    return replace(
        health,
        healthy=not (problems or health.alerts),
        problems=problems,
        warnings=warnings,
        crashing=tuple(one.id for one in lost),
    )


def _problems(
    runtime: Runtime,
    health: Health,
    overdue: float,
    fleet: Fleet,
    refusal: str | None,
    *,
    ask: bool,
) -> tuple[str, ...]:
    """Return what does not move, and why, as far as the tables and the workers can tell."""
    found = [refusal] if refusal else []
    untaken = (*unheard_findings(fleet), *still_findings(fleet))
    deaf = [one.text for one in untaken if one.level == "error"]
    oldest = max(health.oldest_due_seconds or 0.0, health.oldest_claimed_seconds or 0.0)
    if oldest > health.limit:
        late = counted(health.stuck or 0, "email has", "emails have")
        found.append(f"{late} been due or claimed for over {health.limit:g} s")
    if overdue > health.limit:
        found.append(f"a lease ran out {overdue:.0f} s ago, and no sweep has judged its emails")
    seen = health.beat_seconds
    if found:
        found += _reasons(runtime, deaf, ask=ask)
    elif oldest > RESTART:
        found += deaf  # nobody is there to send what waits
    if seen is not None and seen > max(health.limit, UNSEEN):
        found.append(beat_finding(seen).text)
    elif seen is None and found and runtime.find_celery() is not None:
        found.append(beat_finding(None).text)
    return tuple(found)


def _reasons(runtime: Runtime, deaf: list[str], *, ask: bool) -> list[str]:
    """Return why emails wait: they are paused, or no worker takes them.

    The workers are asked over the broker, unless their table tells that none is there (`deaf`).
    """
    app = runtime.find_celery()
    scopes = runtime.database.read(lambda c: paused(c, runtime.database))
    reasons = [f"paused: {scope} (flask outbox resume {scope})" for scope in sorted(scopes)]
    if runtime.suppressed():
        return [*reasons, SUPPRESSED]
    if app is None:
        return [*reasons, f"{NO_CELERY}: only `flask outbox drain` sends"]
    if deaf or not ask:
        return [*reasons, *deaf]
    return [*reasons, *(one.text for one in fleet_findings(app) if one.level != "ok")]


def _faults(runtime: Runtime) -> tuple[str, ...]:
    """Return what is wrong with the database."""
    return tuple(one.text for one in database_findings(runtime) if one.level == "error")
