"""Reads what the metrics tell, by one statement that takes milliseconds for millions of emails.

All reads are steps in an index, or of small tables, or end at a limit. What is counted is read from
the sums and from the tallies in the same statement, so no counter ever falls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from operator import gt, le
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Row,
    Select,
    Table,
    case,
    cast,
    func,
    null,
    select,
    union_all,
)

from ..domain.delivery.breaker_timing import BreakerState
from ..domain.delivery.status import Status
from ..domain.figures.spans import TOTAL
from ..domain.fleet import LastBeat, ProcessId
from ..domain.metrics.scrape import CAME_INTO_DOUBT, Counted, Halt, Scrape
from .connection.database import Database
from .control import circuit_breaker, fleet
from .control.beat import since
from .control.counter import BEAT, MARKS, UNKNOWN, summed
from .queries.standstill import MOST_COUNTED, claimed
from .queries.sweep.lane_keys import marked, ways
from .queries.sweep.tagged_rows import constant
from .queries.waiting import leased, waiting
from .schema.clock import MOMENT, utc


def scrape(connection: Connection, database: Database) -> Scrape:
    """Return what the tables tell now."""
    rows = defaultdict[str, list[Row[Any]]](list)
    for row in connection.execute(database.built(_statement), marked(database, {})).all():
        rows[row.what].append(row)
    [clock] = rows["now"]
    now = utc(clock.moment)
    counters = summed((row.name, row.number) for row in rows["counter"])
    beat = counters.pop(BEAT, None)
    doubts = counters.pop(UNKNOWN, 0)
    return Scrape(
        attempts=tuple(
            Counted(row.name, row.route, row.priority, row.verdict, row.bin, row.number)
            for row in rows["attempts"]
        ),
        emails={row.name: row.number for row in rows["emails"]},
        oldest_due=_oldest(rows["way"], now),
        oldest_claimed=_oldest(rows["claimed"], now),
        halts=tuple(
            Halt(row.name, BreakerState(row.state), bool(row.alert)) for row in rows["halt"]
        ),
        paused=tuple(sorted(row.name for row in rows["pause"])),
        beat_seconds=None if beat is None else since(beat, now.timestamp()),
        events=counters | {CAME_INTO_DOUBT: doubts},
        workers=tuple(_last_beat(row, now) for row in rows["worker"]),
    )


def _oldest(rows: Iterable[Row[Any]], now: datetime) -> dict[int, float]:
    """Return how many seconds ago the first moment of each priority was."""
    # The first email of a way may be due in the future, and a claimed one if the clock was ahead.
    found: dict[int, float] = {}
    for row in rows:
        age = (now - utc(row.moment)).total_seconds()
        found[row.priority] = max(found.get(row.priority, 0.0), age)
    return found


def _last_beat(row: Row[Any], now: datetime) -> LastBeat:
    return LastBeat(
        name=row.name,
        pool=row.pool,
        queues=tuple(row.queues.split()),
        tasks=row.tasks,
        process=ProcessId(row.boot, row.pid, row.process_start),
        is_stopped=row.stopped is not None,
        started_seconds=fleet.since_start(now, utc(row.started)),
        seen_seconds=fleet.since_seen(now, utc(row.moment)),
    )


def _statement(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the statement. The row `now` is its first, because its types are those of all rows."""
    tables, way = database.tables, ways(database).cte("waiting_way")
    stat, tally = tables.stat, tables.tally
    counter, breaker = tables.counter.c, tables.breaker.c
    now = database.now()
    is_told = counter.name.not_in([constant(name) for name in MARKS if name != BEAT])
    return union_all(
        _row("now", moment=now, started=now, stopped=now),
        _attempts(stat).where(stat.c.span == TOTAL),
        _attempts(tally).where(tally.c.attempts > 0),
        _row("counter", name=counter.name, number=counter.value).where(is_told),
        _row(
            "halt",
            name=breaker.server,
            state=breaker.state,
            alert=case((breaker.alert, constant(1)), else_=constant(0)),
        ).where(circuit_breaker.counts(database)),
        _row("pause", name=tables.pause.c.scope),
        _row("way", priority=way.c.priority, moment=way.c.due_at),
        _claimed(database),
        _emails("due", waiting(database, way, le, now, MOST_COUNTED)),
        _emails("scheduled", waiting(database, way, gt, now, MOST_COUNTED)),
        _emails("claimed", leased(database, Status.CLAIMED)),
        _emails("sending", leased(database, Status.SENDING)),
        _emails("attention", _of_a_person(database)),
        _workers(database),
    )


_COLUMNS: dict[str, str | int | None] = {
    # of several kinds of rows
    "name": "",
    "priority": 0,
    "number": 0,
    "moment": None,
    # of attempts
    "route": "",
    "verdict": "",
    "bin": 0,
    # of a halt
    "state": "",
    "alert": 0,
    # of a worker
    "queues": "",
    "pool": "",
    "tasks": 0,
    "boot": "",
    "pid": 0,
    "process_start": 0,
    "started": None,
    "stopped": None,
}
"""The columns that all rows of the statement have, and what stands there in rows without them."""


def _row(what: str, **told: Any) -> Select[*tuple[Any, ...]]:
    """Return the statement for rows of one kind, which tell something in some of the columns."""
    values = {"what": what} | _COLUMNS | told
    return select(*(_column(value).label(name) for name, value in values.items()))


def _column(value: Any) -> ColumnElement[Any]:
    if value is None:
        return null()
    return constant(value) if isinstance(value, str | int) else value


def _workers(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for the workers and beats that are known."""
    one = fleet.known(database, database.tables.worker).subquery("known_worker").c
    return _row(
        "worker",
        name=one.name,
        queues=one.queues,
        pool=one.pool,
        tasks=one.tasks,
        boot=one.boot,
        pid=one.pid,
        process_start=one.process_start,
        moment=one.seen_at,
        started=one.started_at,
        stopped=one.stopped_at,
    )


def _attempts(table: Table) -> Select[*tuple[Any, ...]]:
    """Return the statement for the attempts in one of the two tables that have them."""
    columns = table.c
    key = (columns.server, columns.route, columns.verdict, columns.priority, columns.bin)
    return _row(
        "attempts",
        name=columns.server,
        route=columns.route,
        verdict=columns.verdict,
        priority=columns.priority,
        bin=columns.bin,
        number=cast(func.sum(columns.attempts), BigInteger),
    ).group_by(*key)


def _emails(state: str, some: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    """Return the statement that counts the rows of another one, up to the limit."""
    found = some.limit(constant(MOST_COUNTED)).subquery(f"some_{state}")
    return _row("emails", name=state, number=func.count()).select_from(found)


def _claimed(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for the moment since which each priority's claimed emails wait."""
    one = claimed(database).subquery("claimed_since").c
    first = func.min(one.since, type_=MOMENT)
    return _row("claimed", priority=one.priority, moment=first).group_by(one.priority)


def _of_a_person(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for the emails that failed, or that nobody knows of.

    The order keeps a planner that expects many of them to their index.
    """
    email = database.tables.email.c
    needs_one = select(email.id).where(email.attention_at.is_not(None))
    return needs_one.order_by(email.attention_at, email.id)
