"""Reads in one statement how things stand: what waits, what stands still, and what is amiss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import eq, lt
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Select, literal, union_all

from ..backend import backend_of
from ..connection.database import Database
from ..control.beat import Ages, ages_of, since
from ..control.counter import BEAT, TASK
from ..due_times import HELD
from ..report_records import Backlog, Pause
from ..schema.clock import MOMENT, utc
from . import crashing, encryption_keys, server_status, standstill, waiting
from .crashing import CrashingEmail
from .standstill import MOST_COUNTED, Standstill
from .sweep.lane_keys import marked, ways
from .sweep.tagged_rows import Findings, constant, finding, now


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeState:
    """How things stand."""

    found: Findings  # with those of `server_status.terms`
    backlog: Backlog
    standstill: Standstill
    marks: Ages
    pauses: tuple[Pause, ...]  # by scope
    crashing: tuple[CrashingEmail, ...]
    keys: frozenset[str]  # with which the next emails that wait are encrypted
    has_held: bool
    failed_lately: int  # up to MOST_FAILED
    lock_seconds: int  # for which a statement has waited for a lock of a whole table
    commit_seconds: int  # for which a commit has waited for a synchronous replica


def look(
    connection: Connection,
    database: Database,
    *,
    limit: float,
    lease_seconds: float,
    max_crashes: int,
) -> WholeState:
    """Return how things stand. Emails that wait for over `limit` seconds stand still."""
    statement = database.built(_statement, limit, lease_seconds, max_crashes)
    found = Findings(connection, statement, marked(database, {}))
    seconds = int(utc(found.now).timestamp())
    return WholeState(
        found=found,
        backlog=waiting.read(found),
        standstill=standstill.read(found),
        marks=ages_of({row.name: since(row.number, seconds) for row in found["mark"]}),
        pauses=tuple(
            Pause(scope=row.name, paused_at=utc(row.moment))
            for row in sorted(found["pause"], key=lambda row: row.name)
        ),
        crashing=crashing.read(found),
        keys=frozenset(row.name for row in found["key"]),
        has_held=found["held"][0].emails > 0,
        failed_lately=found["failed_lately"][0].emails,
        lock_seconds=max((row.number for row in found["lock"]), default=0),
        commit_seconds=max((row.number for row in found["commit"]), default=0),
    )


def _statement(
    database: Database, limit: float, lease_seconds: float, max_crashes: int
) -> CompoundSelect[*tuple[Any, ...]]:
    way = ways(database).cte("waiting_way")
    counter, pause = database.tables.counter.c, database.tables.pause.c
    late = waiting.waiting(database, way, lt, database.now(-limit), MOST_COUNTED)
    held = waiting.waiting(database, way, eq, literal(HELD, MOMENT), 1)
    marks = [constant(name) for name in (BEAT, TASK)]
    return union_all(
        now(database),
        *waiting.terms(database, way),
        waiting.counted("late", late),
        waiting.counted("held", held),
        *standstill.terms(database, limit),
        *server_status.terms(database),
        *crashing.terms(database, lease_seconds, max_crashes),
        encryption_keys.term(database),
        waiting.counted("failed_lately", waiting.failed_lately(database)),
        finding("mark", counter.name, number=counter.value).where(counter.name.in_(marks)),
        finding("pause", pause.scope, moment=pause.paused_at),
        *_waits(database),
    )


def _waits(database: Database) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield the statements for how long others have waited: for one of our tables, or to commit."""
    own = backend_of(database.dialect)
    if own.lock_waits is not None:
        wait = own.lock_waits(database.names).subquery("lock_wait").c
        yield finding("lock", wait.name, number=wait.seconds)
    if own.commit_waits is not None:
        wait = own.commit_waits.subquery("commit_wait").c
        yield finding("commit", number=wait.seconds)
