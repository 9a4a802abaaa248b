"""Workers do a job beside what they send; one that is killed loses nothing of it."""

from __future__ import annotations

from uuid import uuid4

import pytest
import sqlalchemy as sa

from outbox import JobState, Status
from tests.support.system.app import db, outbox
from tests.support.system.system import System
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.one_broker("redis"),
    pytest.mark.one_database("postgresql"),
]

READERS = 3000


def fail(system: System) -> None:
    """Let all emails fail, as a worker records it."""
    email = system.runtime.tables.email
    steps: list[dict[str, object]] = [
        {"status": Status.CLAIMED, "due_at": None, "token": uuid4()},
        {"status": Status.SENDING},
        {"status": Status.FAILED, "token": None, "finished_at": system.runtime.database.now()},
    ]
    for values in steps:
        db.session.execute(sa.update(email).values(**values))
    db.session.commit()


def test_a_killed_worker_loses_nothing_of_a_job(system: System) -> None:
    readers = system.newsletter(READERS)
    fail(system)
    job_id = outbox.start_job("retry", status="failed", by="ada").id

    def changed() -> int:
        found = outbox.job(job_id)
        return 0 if found is None else found.changed

    system.beat()
    worker = system.worker()
    wait_until(lambda: changed() > 0, 60, "the job is under way")
    worker.kill_9()
    system.worker()
    system.wait_sent(READERS)
    job = outbox.job(job_id)
    assert job is not None
    assert (job.state, job.changed, job.unchanged) == (JobState.DONE, READERS, 0)
    assert {recipient for recipient, _ in system.catcher.copies()} == set(readers)
    (end, start) = outbox.audit()
    assert (end.action, end.result) == ("end job", f"{READERS} changed, 0 unchanged")
    assert (start.action, start.who) == ("start job", "ada")
