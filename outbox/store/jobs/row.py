"""A job's row: written at its start, locked for each step, and read by who wants to know."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from ...domain.config.search_terms import Term
from ...domain.jobs.order import Action, JobState, Order, text_of, texts_of, values_of
from ...domain.jobs.pace import part_done
from ...domain.search.place import Place, read_place
from ..connection.database import Database
from ..connection.row_locks import locking
from ..encryption.cipher import MissingKey, Part
from ..report_records import Job
from ..schema.audit_tables import RESULT_LENGTH
from ..schema.clock import utc
from .walk import Count

FORGOTTEN: dict[str, Any] = {"sealed": None, "key_id": None}
"""The values of a job that needs its personal filters no more."""


def write(
    connection: Connection,
    database: Database,
    order: Order,
    *,
    upto: Place,
    count: Count,
    ends: tuple[Place, Place] | None,
    who: str | None,
) -> int:
    """Write a running job; return its id."""
    first, last = ends or (None, None)
    now = database.now()
    values = {
        "action": order.action.value,
        **_stored(database, order),
        "who": who,
        "state": JobState.RUNNING.value,
        "upto": str(upto),
        "place": str(upto),
        "first_place": first and str(first),
        "last_place": last and str(last),
        "held": "[]",
        "found": count.emails,
        "more": count.more,
        "created_at": now,
        "updated_at": now,
    }
    made = connection.execute(insert(database.tables.job).values(**values))
    found: int = made.inserted_primary_key[0]  # type: ignore[index]
    return found


def started(
    connection: Connection, database: Database, order: Order, *, upto: Place, who: str
) -> Job | None:
    """Return the job that this person has started from the dry run with this place, or None.

    The place has the moment of the dry run, so no other one of the same filters has it.
    """
    job = database.tables.job
    same = (
        job.c.who == who,
        job.c.action == order.action.value,
        job.c.filters == _told(order),
        job.c.upto == str(upto),
    )
    row = connection.execute(select(job).where(*same).order_by(job.c.id).limit(1)).first()
    return None if row is None else _job(database, row)


def running(connection: Connection, database: Database) -> Sequence[int]:
    """Return the ids of the running jobs, first the one that has waited longest for a step."""
    job = database.tables.job.c
    going = select(job.id).where(job.state == JobState.RUNNING.value)
    return connection.execute(going.order_by(job.updated_at, job.id)).scalars().all()


def lock(connection: Connection, database: Database, job_id: int) -> Row[Any] | None:
    """Lock a running job; None where another sweep has it, or it does not run any more."""
    job = database.tables.job
    ours = select(job).where(job.c.id == job_id, job.c.state == JobState.RUNNING.value)
    return connection.execute(locking(ours, job, skip_locked=True)).one_or_none()


def change(
    connection: Connection,
    database: Database,
    job_id: int,
    before: JobState,
    *,
    since: datetime | None = None,
    **values: Any,
) -> bool:
    """Change a job that is in this state, with `since` from then on; return whether it was."""
    job = database.tables.job
    ours = update(job).where(job.c.id == job_id, job.c.state == before.value)
    if since is not None:
        ours = ours.where(job.c.updated_at == since)
    return bool(connection.execute(ours.values(updated_at=database.now(), **values)).rowcount)


def stop(connection: Connection, database: Database, job_id: int, reason: str = "") -> bool:
    """Stop a running job; the step that is under way is waited for."""
    values: dict[str, Any] = {"state": JobState.STOPPED.value, "reason": reason[:RESULT_LENGTH]}
    return change(connection, database, job_id, JobState.RUNNING, **values)


def stop_all(connection: Connection, database: Database, reason: str) -> None:
    """Stop every running job; a step that is under way is waited for."""
    job = database.tables.job
    ours = update(job).where(job.c.state == JobState.RUNNING.value)
    values = {"state": JobState.STOPPED.value, "reason": reason[:RESULT_LENGTH]}
    connection.execute(ours.values(updated_at=database.now(), **values))


def resume(
    connection: Connection, database: Database, job_id: int, since: datetime | None = None
) -> bool:
    """Let a stopped job go on from where it stopped; with `since` only after that very stop."""
    values: dict[str, Any] = {"state": JobState.RUNNING.value, "reason": ""}
    return change(connection, database, job_id, JobState.STOPPED, since=since, **values)


def jobs(
    connection: Connection,
    database: Database,
    *,
    limit: int,
    before: int | None = None,
    job_id: int | None = None,
    state: JobState | None = None,
) -> tuple[Job, ...]:
    """Return the newest jobs first: those with ids below `before`, one job, or those of a state."""
    job = database.tables.job
    statement = select(job).order_by(job.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(job.c.id < before)
    if job_id is not None:
        statement = statement.where(job.c.id == job_id)
    if state is not None:
        statement = statement.where(job.c.state == state.value)
    return tuple(_job(database, row) for row in connection.execute(statement))


def order_of(database: Database, row: Row[Any], indexed: Collection[Term]) -> Order:
    """Return a job's order.

    Raises MissingKey and ValueError for filters that cannot be decrypted, and InvalidMessage for
    those that are not indexed any more.
    """
    given = json.loads(row.filters) | personal(database, row)
    return Order.check(indexed, row.action, **values_of(given))


def personal(database: Database, row: Row[Any]) -> dict[str, str]:
    """Return the filters that may name a person, in clear. Raises MissingKey and ValueError."""
    if row.sealed is None:
        return {}
    octets = database.cipher.open(row.key_id, Part.FILTERS, bytes(row.sealed), _owner(row))
    found: dict[str, str] = json.loads(octets)
    return found


def place_of(text: str) -> Place:
    """Return a stored place."""
    found = read_place(text)
    if found is None:
        raise ValueError("a job has no place")
    return found


def _told(order: Order) -> str:
    """Return the filters as JSON, without the values of those that may name a person."""
    plain, names = texts_of(order.filters)
    return json.dumps(plain | dict.fromkeys(names), sort_keys=True)


def _stored(database: Database, order: Order) -> dict[str, Any]:
    """Return the columns of the filters; those that may name a person are sealed."""
    filters, (_, names) = _told(order), texts_of(order.filters)
    if not names:
        return {"filters": filters}
    octets = json.dumps(names).encode()
    cipher, owner = database.cipher, f"{order.action} {filters}"
    return {
        "filters": filters,
        "sealed": cipher.seal(Part.FILTERS, octets, owner),
        "key_id": cipher.key_id,
    }


def _owner(row: Row[Any]) -> str:
    """Return what sealed filters are bound to: in another job's row they are not decrypted."""
    return f"{row.action} {row.filters}"


def _job(database: Database, row: Row[Any]) -> Job:
    filters: dict[str, str | None] = json.loads(row.filters)
    with suppress(MissingKey, ValueError):  # then they are told by their names alone
        filters |= personal(database, row)
    return Job(
        id=row.id,
        action=Action(row.action),
        filters={n: None if text is None else text_of(n, text) for n, text in filters.items()},
        state=JobState(row.state),
        who=row.who,
        emails=row.found,
        more=row.more,
        changed=row.changed,
        unchanged=row.unchanged,
        share=_share(row),
        reason=row.reason,
        created_at=utc(row.created_at),
        updated_at=utc(row.updated_at),
        finished_at=None if row.finished_at is None else utc(row.finished_at),
    )


def _share(row: Row[Any]) -> float | None:
    """Return about how far a job is, by its count, or else by the place to which it has come."""
    if row.state == JobState.DONE.value:
        return 1.0
    if not row.more:
        return min(1.0, (row.changed + row.unchanged) / row.found) if row.found else 0.0
    if row.first_place is None or row.last_place is None:
        return None
    return part_done(place_of(row.first_place), place_of(row.place), place_of(row.last_place))
