"""Leaves marks of beat and of tasks on PostgreSQL: looks and replaces in one statement.

A worker's beat does so together with the renewal of its row, and with its look at the other rows.
None of it waits for a synchronous replica: the marks only tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from ...connection.database import Database
from .local_commit import LOCALLY

_STATEMENT = """
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp() + make_interval(secs => %(offset)s)))::bigint
        AS now, {locally}
), old AS MATERIALIZED (
    SELECT mark.name FROM {counter} AS mark, moment
    WHERE mark.name = %(name)s
        AND (mark.value > moment.now OR mark.value <= moment.now - %(every)s)
    FOR UPDATE OF mark SKIP LOCKED
), renewed AS (
    UPDATE {counter} AS mark SET value = moment.now FROM old, moment WHERE mark.name = old.name
)
SELECT moment.now, EXISTS (SELECT FROM {counter} WHERE name = %(name)s) AS is_there FROM moment
"""


def renew(database: Database, name: str, every: float) -> int | None:
    """Do as `beat.renew_in_steps` does, and return the same."""
    values = {"offset": database.offset, "name": name, "every": int(every)}
    (found,) = database.run_alone(database.built(_worded), values)
    return None if found.is_there else int(found.now)


def _worded(database: Database) -> str:
    return _STATEMENT.format(counter=database.name(database.tables.counter), locally=LOCALLY)


_BEAT = """
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() + make_interval(secs => %(offset)s) AS now, {locally}
), told AS MATERIALIZED (
    SELECT told.name, floor(extract(epoch FROM now))::bigint AS now, every,
        floor(extract(epoch FROM now) - ago)::bigint AS value
    FROM moment, unnest(
        CAST(%(names)s AS text[]), CAST(%(agos)s AS double precision[]), CAST(%(every)s AS bigint[])
    ) AS told (name, ago, every)
), old AS MATERIALIZED (
    SELECT mark.name, told.value FROM {counter} AS mark JOIN told ON mark.name = told.name
    WHERE mark.value > told.now OR mark.value <= told.value - told.every
    FOR UPDATE OF mark SKIP LOCKED
), left_anew AS (
    UPDATE {counter} AS mark SET value = old.value FROM old WHERE mark.name = old.name
), mine AS (
    UPDATE {worker} AS worker SET seen_at = moment.now, queues = %(queues)s,
        concurrency = %(concurrency)s, slots = %(slots)s, tasks = %(tasks)s
    FROM moment WHERE worker.id = CAST(%(worker)s AS uuid)
    RETURNING worker.slots, worker.boot, worker.pid, worker.process_start
), first_ones AS (
    INSERT INTO {counter} (name, value) SELECT told.name, told.value FROM told
    WHERE NOT EXISTS (SELECT FROM {counter} AS mark WHERE mark.name = told.name)
    ON CONFLICT DO NOTHING
)
SELECT slots, boot, pid, process_start, TRUE AS is_mine FROM mine
UNION ALL
SELECT slots, boot, pid, process_start, FALSE FROM {worker} AS worker, moment
WHERE worker.id <> CAST(%(worker)s AS uuid) AND worker.stopped_at IS NULL
    AND worker.seen_at BETWEEN moment.now - make_interval(secs => %(living)s)
        AND moment.now + make_interval(secs => %(living)s)
"""


def renew_worker(
    database: Database,
    worker: UUID,
    changes: Mapping[str, Any],
    told: Sequence[tuple[str, float, int]],
    living: float,
) -> Sequence[Row[Any]]:
    """Do as `fleet.renew_in_steps` does; return the living, the own row first if it is there."""
    names, agos, every = (list(each) for each in zip(*told, strict=True)) if told else ([], [], [])
    values = {
        **changes,
        "offset": database.offset,
        "worker": str(worker),
        "living": living,
        "names": names,
        "agos": agos,
        "every": every,
    }
    return database.run_alone(database.built(_beat_worded), values)


def _beat_worded(database: Database) -> str:
    counter, worker = map(database.name, (database.tables.counter, database.tables.worker))
    return _BEAT.format(counter=counter, worker=worker, locally=LOCALLY)
