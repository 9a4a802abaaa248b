"""The rows of the workers: each writes its own alone, so no write waits for another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Select, delete, func, insert, or_, select, update

from ...domain.fleet import KEPT, LIVING, LastBeat, ProcessId
from ..backend import backend_of
from ..bounded_waits import run_bounded
from ..connection.database import Database
from ..schema.clock import utc
from . import beat
from .beat import Told

OF_A_NAME = 10
MOST = 500
"""The most rows that are read of workers of one name, and of all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRow:
    """A worker as it last wrote itself down; the seconds are those until now."""

    name: str
    host: str
    boot: str
    pid: int
    process_start: int
    queues: tuple[str, ...]
    pool: str
    concurrency: int
    slots: int
    tasks: int
    version: str
    settings: Mapping[str, str]
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None
    started_seconds: float
    seen_seconds: float

    @property
    def is_living(self) -> bool:
        """Whether it lives, as far as is known, and was not asked to stop; see `living`."""
        return self.stopped_at is None and self.seen_seconds <= LIVING

    @property
    def last_beat(self) -> LastBeat:
        """What tells in which state it is."""
        return LastBeat(
            name=self.name,
            pool=self.pool,
            queues=self.queues,
            tasks=self.tasks,
            process=ProcessId(self.boot, self.pid, self.process_start),
            started_seconds=self.started_seconds,
            seen_seconds=self.seen_seconds,
            is_stopped=self.stopped_at is not None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Living:
    """What counts of a worker, or of a beat, that lives."""

    slots: int
    process: ProcessId


def enter(connection: Connection, database: Database, worker: UUID, row: Mapping[str, Any]) -> None:
    """Write the row of a worker that starts."""
    now = database.now()
    statement = insert(database.tables.worker)
    connection.execute(statement.values(id=worker, started_at=now, seen_at=now, **row))


def renew(
    connection: Connection, database: Database, worker: UUID, changes: Mapping[str, Any]
) -> bool:
    """Note that the worker lives, and what has changed; return False if its row is gone."""
    table = database.tables.worker
    mine = update(table).where(table.c.id == worker)
    renewed = mine.values(seen_at=database.now(), **changes)
    return connection.execute(renewed).rowcount == 1


def renew_and_look(
    database: Database, worker: UUID, changes: Mapping[str, Any], told: Sequence[Told]
) -> list[Living] | None:
    """Renew the row, leave the marks that the worker's tasks have told, and return who lives.

    Return None if its row is gone. On PostgreSQL all of it is one statement.
    """
    own = backend_of(database.dialect).renew_worker
    if own is None:
        return renew_in_steps(database, worker, changes, told)
    rows = own(database, worker, changes, told, LIVING)
    if not any(row.is_mine for row in rows):
        return None
    return [_living(row.slots, row.boot, row.pid, row.process_start) for row in rows]


def renew_in_steps(
    database: Database, worker: UUID, changes: Mapping[str, Any], told: Sequence[Told]
) -> list[Living] | None:
    """Do as `renew_and_look` does, on any database. The marks are not in the row's transaction."""

    def work(connection: Connection) -> list[Living] | None:
        is_there = renew(connection, database, worker, changes)
        return living(connection, database) if is_there else None

    found = database.run_each(work)
    beat.leave(database, told)
    return found


def leave(connection: Connection, database: Database, worker: UUID) -> None:
    """Note that the worker was asked to stop: from now on its slots do not count."""
    table, now = database.tables.worker, database.now()
    mine = update(table).where(table.c.id == worker)
    connection.execute(mine.values(seen_at=now, stopped_at=now, tasks=0))


def living(connection: Connection, database: Database) -> list[Living]:
    """Return the workers and the beats that live, as far as is known, and were not asked to stop.

    A dead worker counts for some time. By then the tasks that it had received are given to others.
    """
    table = database.tables.worker.c
    # A row from the future was written before the clock was set back, and never renewed since.
    lives = table.seen_at.between(database.now(-LIVING), database.now(LIVING))
    columns = table.slots, table.boot, table.pid, table.process_start
    rows = connection.execute(select(*columns).where(lives, table.stopped_at.is_(None)))
    return [_living(*row) for row in rows]


def _living(slots: int, boot: str, pid: int, start: int) -> Living:
    return Living(slots=slots, process=ProcessId(boot, pid, start))


def living_slots(connection: Connection, database: Database) -> int:
    """Return the slots of all living workers together; 0 if none that sends is known to live."""
    return sum(worker.slots for worker in living(connection, database))


def workers(connection: Connection, database: Database) -> tuple[WorkerRow, ...]:
    """Return the rows of the workers that are known, the one that was seen last first."""
    return tuple(map(_worker, connection.execute(database.built(_whole, MOST))))


def _whole(database: Database, most: int) -> Select[*tuple[Any, ...]]:
    return known(database, database.tables.worker, database.now().label("now"), most=most)


def known(database: Database, *columns: Any, most: int = MOST) -> Select[*tuple[Any, ...]]:
    """Return the statement for these columns of the workers, the one that was seen last first.

    A worker that dies again and again leaves a row each time. So of each name that does not live
    the last OF_A_NAME are returned, and of all workers the last `most`.
    """
    table = database.tables.worker
    last_first = table.c.seen_at.desc()
    place = func.row_number().over(partition_by=table.c.name, order_by=last_first).label("place")
    ranked = select(table.c.id, place).subquery("ranked")
    some = or_(ranked.c.place <= OF_A_NAME, table.c.seen_at >= database.now(-LIVING))
    found = select(*columns).select_from(table).join(ranked, ranked.c.id == table.c.id)
    return found.where(some).order_by(last_first, table.c.name).limit(most)


def _worker(row: Any) -> WorkerRow:
    now, started, seen = utc(row.now), utc(row.started_at), utc(row.seen_at)
    told = ("name", "host", "boot", "pid", "process_start", "pool", "concurrency", "slots", "tasks")
    return WorkerRow(
        **{name: getattr(row, name) for name in (*told, "version")},
        queues=tuple(row.queues.split()),
        settings=json.loads(row.settings),
        started_at=started,
        seen_at=seen,
        stopped_at=None if row.stopped_at is None else utc(row.stopped_at),
        started_seconds=since_start(now, started),
        seen_seconds=since_seen(now, seen),
    )


def since_start(now: datetime, started: datetime) -> float:
    """Return how many seconds ago a worker started."""
    return max(0.0, (now - started).total_seconds())


def since_seen(now: datetime, seen: datetime) -> float:
    """Return how many seconds ago a worker was seen; see `living` for one of the future."""
    return abs((now - seen).total_seconds())


def purge_workers(database: Database) -> int:
    """Remove the rows of workers that have not been seen for a day; return how many.

    Raises RowsLocked if a row stays locked.
    """
    table = database.tables.worker
    old = delete(table).where(table.c.seen_at < database.now(-KEPT))
    return run_bounded(database, lambda connection: connection.execute(old).rowcount)
