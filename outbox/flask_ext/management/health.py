"""Whether emails leave, and what keeps them from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from ...domain.counted import counted
from ...store.bounded_waits import bounded_reads
from ...store.connection.error_codes import is_lock_timeout
from ...store.control import fleet as workers_table
from ...store.instance import examine
from ...store.queries import whole_state
from ...store.queries.inspect_schema import lacking_privileges, older_schema
from ...store.queries.server_status import alerts, server_statuses
from ...store.queries.standstill import MOST_COUNTED
from ...store.queries.whole_state import WholeState
from ...store.report_records import Backlog, Pause, RefusedContents, ServerStatus
from ...store.schema.clock import utc
from ...worker.process.runtime import NO_CELERY
from ..session.reading import any_has_written
from .arguments import seconds_of
from .checks import long_waits
from .checks.codes import Code
from .checks.crashing import crashing_line
from .checks.database import database_findings
from .checks.finding import Finding
from .checks.fleet import UNSEEN, beat_finding, fleet_findings
from .checks.fleet_table import RESTART, judged, still_findings, unheard_findings
from .checks.privacy import missing_keys
from .checks.trial import trial_findings
from .checks.workers import is_served
from .emails import contents_refused
from .failures.database_line import database_line
from .results import Fleet, Health
from .server_lines import SUPPRESSED, contents_line, paused_line
from .workers import fleet_of

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime

LONGEST_AGE = 1e9
_HELD = "emails are held since a restore (flask outbox held, flask outbox release)"


@dataclass(frozen=True, kw_only=True)
class HealthLine:
    """A problem or a warning of the health."""

    text: str
    code: Code | None = None  # as `check` finds it; None where that does not look for it
    email_id: int | None = None  # of the email that it is about


@dataclass(frozen=True, kw_only=True)
class Overview:
    """How things stand."""

    health: Health
    problems: tuple[HealthLine, ...]  # those of the health, with their codes
    warnings: tuple[HealthLine, ...]
    backlog: Backlog
    fleet: Fleet
    pauses: tuple[Pause, ...]
    at: datetime  # the database's time then


def health(runtime: Runtime, max_age: Any, *, ask: bool) -> Health:
    """Return whether emails leave; where the database is away, return what is wrong with it.

    `ask`: the workers may be asked over the broker, and the database whether it takes an email,
    which is taken back. A privilege that this process lacks is a warning: it is the reason why
    emails wait if the workers lack it, too.
    """
    limit = runtime.settings.health_age
    if max_age is not None:
        limit = seconds_of("max_age", max_age, LONGEST_AGE)
    try:
        with bounded_reads(runtime.database):
            seen = _examined(runtime, limit, ask=ask)
            lacking = lacking_privileges(runtime.database)
        found = replace(seen.health, warnings=(*lacking, *seen.health.warnings))
        is_tried = ask and not lacking and all(one.code is not Code.SCHEMA for one in seen.problems)
        refused = _refusals(runtime) if is_tried else ()
        problems = (*refused, *found.problems)
        return replace(found, healthy=found.healthy and not refused, problems=problems)
    except (SQLAlchemyError, NotImplementedError) as error:  # psycopg's, of a style of dates
        return Health(healthy=False, limit=limit, problems=_faults(runtime, error))


def _refusals(runtime: Runtime) -> tuple[str, ...]:
    """Return why the database takes no email now: an idle outbox would not show it.

    On SQLite a session of this thread that has written would keep the trial waiting in vain.
    """
    database = runtime.database
    if database.facts.one_writer and any_has_written(database.engine):
        return ()
    return tuple(one.text for one in trial_findings(runtime) if one.level == "error")


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
    contents: tuple[RefusedContents, ...]

    @property
    def oldest(self) -> float:
        """The seconds for which the oldest email has been due or claimed."""
        return max(self.state.backlog.oldest_due_seconds, self.state.standstill.oldest_claimed)


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
        servers = server_statuses(connection, database, names, state.found)
        return _Tables(
            state=state,
            servers=servers,
            fleet=fleet_of(runtime, rows, state.marks),
            place=examine.look_on(connection, database, settings.instance),
            contents=contents_refused(connection, runtime, servers, state.failed_lately),
        )

    return database.read(look)


def _examined(runtime: Runtime, limit: float, *, ask: bool) -> Overview:
    found = _read(runtime, limit)
    problems = _problems(runtime, found, limit, ask=ask)
    warnings = tuple(_warnings(runtime, found, {one.text for one in problems}))
    return Overview(
        health=_health(found, limit, problems, warnings),
        problems=problems,
        warnings=warnings,
        backlog=found.state.backlog,
        fleet=found.fleet,
        pauses=found.state.pauses,
        at=utc(found.state.found.now),
    )


def _health(
    found: _Tables, limit: float, problems: Sequence[HealthLine], warnings: Sequence[HealthLine]
) -> Health:
    waits, standstill, urgent = found.state.backlog, found.state.standstill, alerts(found.servers)
    return Health(
        healthy=not (problems or urgent),
        limit=limit,
        problems=tuple(one.text for one in problems),
        oldest_due_seconds=waits.oldest_due_seconds,
        oldest_claimed_seconds=standstill.oldest_claimed,
        due=waits.due,
        claimed=min(waits.claimed + waits.sending, MOST_COUNTED),
        stuck=standstill.stuck,
        beat_seconds=found.fleet.beat_seconds,
        alerts=urgent,
        servers=found.servers,
        warnings=tuple(one.text for one in warnings),
        crashing=tuple(one.id for one in found.state.crashing),
    )


def _warnings(runtime: Runtime, found: _Tables, told: Collection[str]) -> Iterator[HealthLine]:
    """Yield what keeps no email back yet, but for what is `told` as a problem."""
    yield from _waits(runtime, found.state, long_waits.LEAST, long_waits.LONG)
    instance = found.place.instance
    if instance is not None and instance.has_held and found.state.has_held:
        yield HealthLine(text=_HELD, code=Code.HELD)
    for one in found.contents:
        yield HealthLine(text=contents_line(one), code=Code.CONTENTS)
    for email in found.state.crashing:
        yield HealthLine(text=crashing_line(email), code=Code.CRASHING, email_id=email.id)
    yield from (_line(one) for one in judged(found.fleet) if one.text not in told)


def _problems(
    runtime: Runtime, found: _Tables, limit: float, *, ask: bool
) -> tuple[HealthLine, ...]:
    """Return what is wrong, as far as the tables and the workers can tell."""
    behind = older_schema(runtime.database)
    return (
        *([HealthLine(text=behind, code=Code.SCHEMA)] if behind else []),
        *map(_line, missing_keys(runtime, found.state.keys)),
        *_waits(runtime, found.state, long_waits.LONG, inf),
        *_standstill(runtime, found, limit, ask=ask),
    )


def _waits(runtime: Runtime, state: WholeState, least: float, below: float) -> Iterator[HealthLine]:
    """Yield what has kept statements waiting for so long: a locked table, or a lost replica."""
    if least <= state.lock_seconds < below:
        for text in long_waits.holders(runtime.database, long_waits.LEAST):
            yield HealthLine(text=text, code=Code.TABLE_LOCK)
    if least <= state.commit_seconds < below:
        for text in long_waits.commits(runtime.database, long_waits.LEAST):
            yield HealthLine(text=text, code=Code.COMMITS)


def _standstill(runtime: Runtime, tables: _Tables, limit: float, *, ask: bool) -> list[HealthLine]:
    """Return what does not move, and why."""
    found = list(_late(tables, limit))
    untaken = (*unheard_findings(tables.fleet), *still_findings(tables.fleet))
    deaf = [_line(one) for one in untaken if one.level == "error"]
    if found:
        found += _reasons(runtime, tables, deaf, ask=ask)
    elif tables.oldest > RESTART:
        found += deaf  # nobody is there to send what waits
    seen = tables.fleet.beat_seconds
    if seen is not None and seen > max(limit, UNSEEN):
        found.append(_line(beat_finding(seen)))
    elif seen is None and found and runtime.find_celery() is not None:
        found.append(_line(beat_finding(None)))
    return found


def _late(tables: _Tables, limit: float) -> Iterator[HealthLine]:
    """Yield that this outbox may not send, and what has waited for too long."""
    if tables.place.refusal:
        yield HealthLine(text=tables.place.refusal, code=Code.COPY)
    standstill = tables.state.standstill
    if tables.oldest > limit:
        late = counted(standstill.stuck, "email has", "emails have")
        yield HealthLine(text=f"{late} been due or claimed for over {limit:g} s")
    if standstill.lapsed > limit:
        told = f"a lease ran out {standstill.lapsed:.0f} s ago"
        yield HealthLine(text=f"{told}, and no sweep has judged its emails")


def _reasons(
    runtime: Runtime, tables: _Tables, deaf: list[HealthLine], *, ask: bool
) -> list[HealthLine]:
    """Return why emails wait: they are paused, or no worker takes them.

    The workers are asked over the broker, unless their table tells that none is there (`deaf`).
    """
    app = runtime.find_celery()
    reasons = [
        HealthLine(text=paused_line(one.scope), code=Code.PAUSED) for one in tables.state.pauses
    ]
    if runtime.sending_is_off():
        return [*reasons, HealthLine(text=SUPPRESSED, code=Code.SUPPRESSED)]
    if app is None:
        told = f"{NO_CELERY}: only `flask outbox drain` sends"
        return [*reasons, HealthLine(text=told, code=Code.CELERY)]
    if deaf or not ask:
        return [*reasons, *deaf]
    workers = fleet_findings(app, is_served=is_served(tables.fleet))
    return [*reasons, *(_line(one) for one in workers if one.level != "ok")]


def _line(finding: Finding) -> HealthLine:
    return HealthLine(text=finding.text, code=finding.code)


def _faults(runtime: Runtime, failure: Exception) -> tuple[str, ...]:
    """Return what is wrong with the database that has failed so."""
    if is_lock_timeout(failure):  # what follows would wait as long again
        line = database_line(runtime.database, failure)
        return (line, *long_waits.holders(runtime.database))
    found = tuple(one.text for one in database_findings(runtime) if one.level == "error")
    return found or (database_line(runtime.database, failure),)
