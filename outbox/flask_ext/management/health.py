"""Whether emails leave, and what keeps them from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from ...domain.counted import counted
from ...store.control import fleet as workers_table
from ...store.instance import examine
from ...store.queries import whole_state
from ...store.queries.inspect_schema import older_schema
from ...store.queries.server_status import alerts, server_statuses
from ...store.queries.standstill import MOST_COUNTED
from ...store.report_records import Backlog, Pause, ServerStatus
from ...store.schema.clock import utc
from ...worker.process.runtime import NO_CELERY
from .arguments import seconds_of
from .checks.crashing import crashing_line
from .checks.database import database_findings
from .checks.fleet import UNSEEN, beat_finding, fleet_findings
from .checks.fleet_table import RESTART, still_findings, unheard_findings
from .checks.privacy import missing
from .database_line import database_line
from .results import Fleet, Health
from .server_lines import SUPPRESSED
from .workers import fleet_of

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
    pauses: tuple[Pause, ...]
    at: datetime  # the database's time then


def health(runtime: Runtime, max_age: Any, *, ask: bool) -> Health:
    """Return whether emails leave; where the database is away, return what is wrong with it.

    `ask`: the workers may be asked over the broker.
    """
    limit = runtime.settings.health_age
    if max_age is not None:
        limit = seconds_of("max_age", max_age, LONGEST_AGE)
    try:
        return _examined(runtime, limit, ask=ask).health
    except SQLAlchemyError as error:
        problems = _faults(runtime) or (database_line(runtime.database.engine, error),)
        return Health(healthy=False, limit=limit, problems=problems)


def overview(runtime: Runtime) -> Overview:
    """Return what `health`, `backlog`, `workers` and `paused` tell; no worker is asked."""
    return _examined(runtime, runtime.settings.health_age, ask=False)


@dataclass(frozen=True, kw_only=True)
class _Tables:
    """What the tables tell, each read once."""

    state: WholeState
    servers: tuple[ServerStatus, ...]
    fleet: Fleet
    place: examine.Examination


def _read(runtime: Runtime, limit: float) -> _Tables:
    database, settings = runtime.database, runtime.settings
    names = [server.name for server in runtime.servers]

    def look(connection: Connection) -> _Tables:
        state = whole_state.look(
            connection,
            database,
            limit=limit,
            lease_seconds=settings.lease,
            max_crashes=settings.max_crashes,
        )
        rows = workers_table.workers(connection, database)
        return _Tables(
            state=state,
            servers=server_statuses(connection, database, names, state.found),
            fleet=fleet_of(runtime, rows, state.marks),
            place=examine.look_on(connection, database, settings.instance),
        )

    return database.read(look)


def _examined(runtime: Runtime, limit: float, *, ask: bool) -> Overview:
    found = _read(runtime, limit)
    state, fleet, health = found.state, found.fleet, _figures(found, limit)
    problems = _problems(runtime, health, found, ask=ask)
    may_hold = found.place.instance is not None and found.place.instance.has_held
    held = (HELD,) if may_hold and state.has_held else ()
    amiss = (text for text in fleet.problems if text not in problems)
    health = replace(
        health,
        healthy=not (problems or health.alerts),
        problems=problems,
        warnings=(*held, *map(crashing_line, state.crashing), *amiss),
    )
    moment = utc(state.found.now)
    return Overview(
        health=health, backlog=state.backlog, fleet=fleet, pauses=state.pauses, at=moment
    )


def _figures(found: _Tables, limit: float) -> Health:
    """Return the figures of the health, not judged yet."""
    waits, standstill = found.state.backlog, found.state.standstill
    return Health(
        healthy=True,
        limit=limit,
        problems=(),
        oldest_due_seconds=waits.oldest_due_seconds,
        oldest_claimed_seconds=standstill.oldest_claimed,
        due=waits.due,
        claimed=min(waits.claimed + waits.sending, MOST_COUNTED),
        stuck=standstill.stuck,
        beat_seconds=found.fleet.beat_seconds,
        alerts=alerts(found.servers),
        servers=found.servers,
        crashing=tuple(one.id for one in found.state.crashing),
    )


def _problems(runtime: Runtime, health: Health, found: _Tables, *, ask: bool) -> tuple[str, ...]:
    """Return what is wrong, as far as the tables and the workers can tell."""
    return (
        *([behind] if (behind := older_schema(runtime.database)) else []),
        *missing(runtime, found.state.keys),
        *_still(runtime, health, found, ask=ask),
    )


def _still(runtime: Runtime, health: Health, tables: _Tables, *, ask: bool) -> list[str]:
    """Return what does not move, and why."""
    found = [tables.place.refusal] if tables.place.refusal else []
    untaken = (*unheard_findings(tables.fleet), *still_findings(tables.fleet))
    deaf = [one.text for one in untaken if one.level == "error"]
    oldest = max(health.oldest_due_seconds or 0.0, health.oldest_claimed_seconds or 0.0)
    if oldest > health.limit:
        late = counted(health.stuck or 0, "email has", "emails have")
        found.append(f"{late} been due or claimed for over {health.limit:g} s")
    if (overdue := tables.state.standstill.overdue) > health.limit:
        found.append(f"a lease ran out {overdue:.0f} s ago, and no sweep has judged its emails")
    seen = health.beat_seconds
    if found:
        found += _reasons(runtime, tables.state.pauses, deaf, ask=ask)
    elif oldest > RESTART:
        found += deaf  # nobody is there to send what waits
    if seen is not None and seen > max(health.limit, UNSEEN):
        found.append(beat_finding(seen).text)
    elif seen is None and found and runtime.find_celery() is not None:
        found.append(beat_finding(None).text)
    return found


def _reasons(runtime: Runtime, pauses: Iterable[Pause], deaf: list[str], *, ask: bool) -> list[str]:
    """Return why emails wait: they are paused, or no worker takes them.

    The workers are asked over the broker, unless their table tells that none is there (`deaf`).
    """
    app = runtime.find_celery()
    reasons = [f"paused: {one.scope} (flask outbox resume {one.scope})" for one in pauses]
    if runtime.sending_is_off():
        return [*reasons, SUPPRESSED]
    if app is None:
        return [*reasons, f"{NO_CELERY}: only `flask outbox drain` sends"]
    if deaf or not ask:
        return [*reasons, *deaf]
    return [*reasons, *(one.text for one in fleet_findings(app) if one.level != "ok")]


def _faults(runtime: Runtime) -> tuple[str, ...]:
    """Return what is wrong with the database."""
    return tuple(one.text for one in database_findings(runtime) if one.level == "error")
