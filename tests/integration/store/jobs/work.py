"""Emails for jobs, and a sweep's part in them."""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa

from outbox import Job, JobState, Status
from outbox.store.jobs import row
from outbox.store.jobs.step import step
from tests.support.shop.shop import Shop, addresses, newsletter


def written(
    shop: Shop, emails: int, status: Status = Status.FAILED, tag: str | None = None
) -> list[int]:
    """Write emails of this status; return their ids."""
    with shop.session() as session:
        before = shop.count(shop.tables.email)
        shop.outbox.enqueue_many(newsletter(), addresses(emails), session=session, tag=tag)
        session.commit()
    ids = [one.id for one in shop.rows(shop.tables.email)][before:]
    if status is not Status.PENDING:
        end(shop, ids, status)
    return ids


def end(shop: Shop, ids: list[int], status: Status) -> None:
    """End these emails, as a worker's records do."""
    email = shop.tables.email
    ours = sa.update(email).where(email.c.id.in_(ids))
    end = {"status": status.value, "token": None, "finished_at": shop.database.now()}
    doubts = int(status is Status.UNKNOWN)
    with shop.engine.begin() as connection:
        waiting = sa.select(email.c.id).where(email.c.id.in_(ids), email.c.due_at.is_not(None))
        if connection.execute(waiting).first():
            claimed = {"status": Status.CLAIMED.value, "due_at": None, "token": uuid4()}
            connection.execute(ours.values(**claimed))
            connection.execute(ours.values(status=Status.SENDING.value))
        connection.execute(ours.values(unknown_count=doubts, **end))


def one_step(shop: Shop, job: Job, most: int = 3) -> bool:
    """Do one step of a job."""
    database, indexed = shop.database, shop.runtime.settings.indexed
    return database.run(lambda c: step(c, database, job.id, indexed=indexed, most=most))


def finished(shop: Shop, job: Job, most: int = 3) -> Job:
    """Do all steps of a job; return how it ended."""
    for _ in range(200):
        if now(shop, job).state is not JobState.RUNNING:
            return now(shop, job)
        assert one_step(shop, job, most)
    raise AssertionError("the job does not end")


def now(shop: Shop, job: Job) -> Job:
    """Return how a job stands."""
    found = shop.outbox.job(job.id)
    assert found is not None
    return found


def locked(shop: Shop, connection: sa.Connection, job: Job) -> object:
    """Lock a job's row as a sweep does."""
    return row.lock(connection, shop.database, job.id)
