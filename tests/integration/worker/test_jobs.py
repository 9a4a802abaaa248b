"""Sweeps do the jobs after their claims, a little at a time; an error keeps no email back."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import sqlalchemy as sa
from celery.exceptions import SoftTimeLimitExceeded
from sqlalchemy.exc import OperationalError

from outbox import JobState, Status
from outbox.domain.errors import RowsLocked
from outbox.store.jobs import row
from outbox.store.jobs.step import step
from outbox.worker import jobs
from outbox.worker.drain import drain
from outbox.worker.jobs import IDLE_WAIT, RETRY_AFTER, run_jobs, take_turn
from tests.integration.store.jobs.work import now, written
from tests.integration.store.locks import in_time
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("sqlite")


class Clock:
    """A process's clock that a test moves."""

    def __init__(self, shop: Shop) -> None:
        self.now = 100.0
        shop.runtime.clock = lambda: self.now


def test_a_turn_ends_and_the_next_one_goes_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    written(shop, 5)
    job = shop.outbox.start_job("retry", status="failed")
    shop.runtime.job_pace.size = 2
    monkeypatch.setattr(jobs, "TURN", 0.0)
    monkeypatch.setattr(jobs, "next_size", lambda size, _: size)
    assert run_jobs(shop.runtime)
    assert now(shop, job).changed == 2
    assert run_jobs(shop.runtime)
    assert now(shop, job).changed == 4
    assert run_jobs(shop.runtime)
    assert now(shop, job).state is JobState.DONE
    assert not run_jobs(shop.runtime)


def test_a_process_that_has_found_no_job_looks_again_after_a_while(shop: Shop) -> None:
    clock = Clock(shop)
    assert not take_turn(shop.runtime)
    written(shop, 1)
    job = shop.outbox.start_job("retry", status="failed")
    take_turn(shop.runtime)
    assert now(shop, job).state is JobState.RUNNING
    clock.now += IDLE_WAIT
    take_turn(shop.runtime)
    assert now(shop, job).state is JobState.DONE


@pytest.mark.parametrize(
    "error",
    [OperationalError("SELECT", {}, Exception("gone")), OSError("gone"), SoftTimeLimitExceeded()],
    ids=["database", "network", "time limit"],
)
def test_an_outage_leaves_the_job_running_and_is_told_in_a_line(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    clock = Clock(shop)
    written(shop, 1)
    job = shop.outbox.start_job("retry", status="failed")

    def away(*_: Any, **__: Any) -> bool:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(jobs, "step", away)
        assert not take_turn(shop.runtime)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert now(shop, job).state is JobState.RUNNING
    clock.now += RETRY_AFTER
    take_turn(shop.runtime)
    assert now(shop, job).state is JobState.DONE


@pytest.mark.parametrize("error", [ValueError, OverflowError, KeyError])
def test_a_job_that_fails_is_stopped_and_the_others_go_on(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception],
) -> None:
    Clock(shop)  # however slow the machine is, the turn does not end
    written(shop, 2, tag="news")
    bad = shop.outbox.start_job("retry", status="failed")
    good = shop.outbox.start_job("retry", status="failed", tag="news")
    real = step

    def faulty(connection: Any, database: Any, job_id: int, **options: Any) -> bool:
        if job_id == bad.id:
            raise error("secret")
        return real(connection, database, job_id, **options)

    monkeypatch.setattr(jobs, "step", faulty)
    run_jobs(shop.runtime)
    assert (now(shop, bad).state, now(shop, bad).reason) == (JobState.STOPPED, error.__name__)
    assert now(shop, good).state is JobState.DONE
    assert "secret" not in caplog.text


@pytest.mark.parametrize("error", [RowsLocked(), OperationalError("UPDATE", {}, Exception("gone"))])
def test_a_job_that_cannot_be_stopped_now_keeps_no_other_waiting(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    clock = Clock(shop)
    written(shop, 2, tag="news")
    bad = shop.outbox.start_job("retry", status="failed")
    good = shop.outbox.start_job("retry", status="failed", tag="news")
    real = step

    def faulty(connection: Any, database: Any, job_id: int, **options: Any) -> bool:
        if job_id == bad.id:
            raise KeyError("secret")
        return real(connection, database, job_id, **options)

    def unstoppable(*_: Any) -> bool:
        raise error

    monkeypatch.setattr(jobs, "step", faulty)
    with monkeypatch.context() as patched:
        patched.setattr(row, "stop", unstoppable)
        assert not run_jobs(shop.runtime)
    assert (now(shop, bad).state, now(shop, good).state) == (JobState.RUNNING, JobState.DONE)
    clock.now += RETRY_AFTER
    run_jobs(shop.runtime)
    assert now(shop, bad).state is JobState.STOPPED


class Slow(Exception):
    """A driver's error: the statement took longer than the database allows."""

    def __init__(self, code: int | str) -> None:
        super().__init__(code)
        self.sqlstate = code if isinstance(code, str) else None


@pytest.mark.parametrize("code", ["57014", 1969, 3024])
def test_a_job_whose_steps_take_too_long_goes_on_in_smaller_ones(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, code: int | str
) -> None:
    written(shop, 5)
    job = shop.outbox.start_job("retry", status="failed")
    real, sizes = step, list[int]()

    def slow(*given: Any, most: int, **options: Any) -> bool:
        sizes.append(most)
        if most > 50:
            raise OperationalError("UPDATE", {}, Slow(code))
        return real(*given, most=most, **options)

    monkeypatch.setattr(jobs, "step", slow)
    while run_jobs(shop.runtime):
        pass
    assert sizes[:3] == [200, 100, 50]
    assert (now(shop, job).state, now(shop, job).changed) == (JobState.DONE, 5)


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_job_whose_least_steps_take_too_long_is_stopped_and_the_others_go_on(
    shop: Shop,
) -> None:
    written(shop, 2, tag="slow")
    written(shop, 2, tag="news")
    bad = shop.outbox.start_job("retry", status="failed", tag="slow")
    good = shop.outbox.start_job("retry", status="failed", tag="news")
    with shop.engine.begin() as connection:
        for statement in _TOO_LONG[connection.dialect.name]:
            connection.exec_driver_sql(statement)
    while run_jobs(shop.runtime):
        pass
    assert now(shop, bad).state is JobState.STOPPED
    assert now(shop, bad).reason.startswith("a step of 20 emails takes longer than the database")
    assert (now(shop, good).state, now(shop, good).changed) == (JobState.DONE, 2)


_TOO_LONG = {
    "postgresql": (
        "CREATE FUNCTION too_long() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION USING ERRCODE = '57014'; END $$",
        "CREATE TRIGGER too_long BEFORE UPDATE ON outbox_email FOR EACH ROW"
        " WHEN (NEW.tag = 'slow') EXECUTE FUNCTION too_long()",
    ),
    "mariadb": (
        "CREATE TRIGGER too_long BEFORE UPDATE ON outbox_email FOR EACH ROW BEGIN"
        " IF NEW.tag = 'slow' THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1969; END IF; END",
    ),
}
"""Statements after which an update of a slow email is answered as one that takes too long."""

_REPAIRED = {
    "postgresql": "DROP TRIGGER too_long ON outbox_email",
    "mariadb": "DROP TRIGGER too_long",
}


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_job_whose_steps_fail_as_in_an_outage_keeps_no_other_waiting(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """It has waited longest for a step, so it comes first each time."""
    clock = Clock(shop)
    written(shop, 2, tag="slow")
    written(shop, 2, tag="news")
    bad = shop.outbox.start_job("retry", status="failed", tag="slow")
    good = shop.outbox.start_job("retry", status="failed", tag="news")
    with shop.engine.begin() as connection:
        for statement in _TOO_LONG[connection.dialect.name]:
            full = statement.replace("57014", "53100").replace("1969", "1021")
            connection.exec_driver_sql(full)
    assert not take_turn(shop.runtime)
    assert (now(shop, good).state, now(shop, good).changed) == (JobState.DONE, 2)
    assert now(shop, bad).state is JobState.RUNNING
    [line] = caplog.messages
    assert line.startswith(f"outbox: job {bad.id} waits (")
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(_REPAIRED[connection.dialect.name])
    take_turn(shop.runtime)
    assert now(shop, bad).changed == 0
    clock.now += RETRY_AFTER
    take_turn(shop.runtime)
    assert (now(shop, bad).state, now(shop, bad).changed) == (JobState.DONE, 2)


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_job_that_needs_a_row_that_somebody_holds_keeps_no_other_waiting(shop: Shop) -> None:
    """Such as the row of a recipient: it is no email's, so it is not passed over."""
    [held] = written(shop, 1, tag="slow")
    written(shop, 1, tag="news")
    bad = shop.outbox.start_job("retry", status="failed", tag="slow")
    good = shop.outbox.start_job("retry", status="failed", tag="news")
    email, recipient = shop.tables.email, shop.tables.recipient
    with shop.engine.begin() as connection:
        connection.execute(sa.update(email).where(email.c.id == held).values(recipients=2))
        copies = ({"position": place, "address": f"{place}@x.example"} for place in (0, 1))
        rows = [{"email_id": held, "status": Status.FAILED, **one} for one in copies]
        connection.execute(sa.insert(recipient), rows)
    with shop.session() as session:
        session.execute(sa.select(recipient).with_for_update()).all()
        assert in_time(lambda: run_jobs(shop.runtime), session), "the turn is over, and one is left"
        in_time(lambda: run_jobs(shop.runtime), session)
        assert now(shop, bad).state is JobState.RUNNING
        assert now(shop, good).state is JobState.DONE
    shop.runtime.job_pace.left_until.clear()
    run_jobs(shop.runtime)
    assert (now(shop, bad).state, now(shop, bad).changed) == (JobState.DONE, 1)


@pytest.mark.parametrize("name", ["server", "reply", "phase"])
def test_a_job_for_what_had_no_last_attempt_retries_it(shop: Shop, name: str) -> None:
    Clock(shop)
    judged = stuck(shop, Status.FAILED)
    (lost,) = written(shop, 1)  # it has no attempt
    which: dict[str, Any] = {name: "(none)"}
    job = shop.outbox.start_job("retry", status="failed", **which)
    run_jobs(shop.runtime)
    assert (now(shop, job).state, now(shop, job).changed) == (JobState.DONE, 1)
    assert shop.status(lost) is Status.PENDING
    assert shop.status(judged) is Status.FAILED


def test_in_a_copy_of_the_outbox_no_job_goes_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(shop, 1)
    job = shop.outbox.start_job("retry", status="failed")
    monkeypatch.setattr(shop.runtime.instance, "refusal", lambda: "a copy")
    assert not run_jobs(shop.runtime)
    assert now(shop, job).changed == 0


def test_a_drain_does_the_jobs_and_sends_what_they_retry(shop: Shop) -> None:
    written(shop, 3)
    shop.outbox.start_job("cancel", tag="none")
    job = shop.outbox.start_job("retry", status="failed")
    shop.runtime.sending_is_off = lambda: False
    drain(shop.runtime)
    assert now(shop, job).state is JobState.DONE
    assert Status.FAILED not in shop.statuses()
