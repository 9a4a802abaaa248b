"""A job's changes, its cursor and its figures are one, whoever stops, dies or does it twice."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from outbox import JobState, Status
from outbox.store.jobs import row as rows
from tests.integration.store.jobs.work import end, finished, locked, now, one_step, written
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        ("retry", Status.FAILED, Status.PENDING),
        ("retry", Status.UNKNOWN, Status.PENDING),
        ("cancel", Status.PENDING, Status.CANCELLED),
        ("resolve as sent", Status.UNKNOWN, Status.SENT),
        ("resolve as failed", Status.UNKNOWN, Status.FAILED),
    ],
)
def test_a_job_changes_what_it_counted_and_nothing_else(
    shop: Shop, action: str, before: Status, after: Status
) -> None:
    others = written(shop, 2, before, tag="other")
    ids = written(shop, 7, before, tag="news")
    chosen: dict[str, Any] = {"tag": "news", "status": before}
    counted = shop.outbox.dry_run(action, **chosen)
    assert (counted.emails, counted.more) == (7, False)
    done = finished(shop, shop.outbox.start_job(action, **chosen))
    assert (done.state, done.changed, done.unchanged, done.share) == (JobState.DONE, 7, 0, 1.0)
    assert done.finished_at is not None
    assert {shop.status(one) for one in ids} == {after}
    assert {shop.status(one) for one in others} == {before}


def test_a_job_stops_and_goes_on_from_where_it_stopped(shop: Shop) -> None:
    ids = written(shop, 8)
    job = shop.outbox.start_job("retry", status="failed")
    assert one_step(shop, job)
    assert shop.outbox.stop_job(job.id)
    assert not shop.outbox.stop_job(job.id)
    assert not one_step(shop, job)
    stands = now(shop, job)
    assert (stands.state, stands.changed, stands.share) == (JobState.STOPPED, 3, 3 / 8)
    assert shop.statuses().count("pending") == 3
    assert shop.outbox.resume_job(job.id)
    assert not shop.outbox.resume_job(job.id)
    assert finished(shop, job).changed == 8
    assert {shop.status(one) for one in ids} == {Status.PENDING}
    assert not shop.outbox.resume_job(job.id)


def test_a_process_that_dies_in_a_step_leaves_the_job_before_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(shop, 5)
    job = shop.outbox.start_job("retry", status="failed")
    assert one_step(shop, job)
    before = now(shop, job)

    def die(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(rows, "change", die)  # all emails of the step are changed by now
        with pytest.raises(SystemExit):
            one_step(shop, job)
    assert now(shop, job) == before
    assert shop.statuses().count("pending") == 3
    assert finished(shop, job).changed == 5


@pytest.mark.databases("postgresql", "mariadb")
def test_two_sweeps_never_do_the_same_step(shop: Shop) -> None:
    written(shop, 5)
    job = shop.outbox.start_job("retry", status="failed")
    with shop.engine.begin() as connection:
        assert locked(shop, connection, job) is not None
        assert not one_step(shop, job)
    assert finished(shop, job).changed == 5


def test_what_comes_later_is_left_as_it_is(shop: Shop) -> None:
    ids = written(shop, 4)
    upto = shop.outbox.dry_run("retry", status="failed").upto
    shop.later(1)
    later = written(shop, 2)
    job = shop.outbox.start_job("retry", status="failed", upto=upto)
    assert one_step(shop, job)
    shop.later(1)
    end(shop, [ids[-1]], Status.FAILED)  # it was retried, and has failed again
    assert finished(shop, job).changed == 4
    assert {shop.status(one) for one in [*later, ids[-1]]} == {Status.FAILED}
    assert {shop.status(one) for one in ids[:-1]} == {Status.PENDING}


def test_what_fails_later_is_left_also_where_a_recipient_leads(shop: Shop) -> None:
    (waits,) = written(shop, 1, Status.PENDING)
    (failed,) = written(shop, 1)
    job = shop.outbox.start_job("retry", status="failed", recipient="r00000@readers.example")
    shop.later(1)
    end(shop, [waits], Status.FAILED)
    assert finished(shop, job).changed == 1
    assert (shop.status(waits), shop.status(failed)) == (Status.FAILED, Status.PENDING)


def test_what_is_enqueued_later_is_left_though_the_databases_clock_went_back(shop: Shop) -> None:
    written(shop, 2)
    job = shop.outbox.start_job("retry", status="failed")
    shop.later(-60)
    later = written(shop, 1)
    assert finished(shop, job).changed == 2
    assert shop.status(later[0]) is Status.FAILED


def test_a_cancellation_leaves_what_is_enqueued_meanwhile(shop: Shop) -> None:
    ids = written(shop, 4, Status.PENDING, tag="news")
    job = shop.outbox.start_job("cancel", tag="news")
    later = written(shop, 1, Status.PENDING, tag="news")
    assert finished(shop, job).changed == 4
    assert {shop.status(one) for one in ids} == {Status.CANCELLED}
    assert shop.status(later[0]) is Status.PENDING


@pytest.mark.databases("postgresql", "mariadb")
def test_what_another_transaction_holds_is_tried_once_more_at_the_end(shop: Shop) -> None:
    first, second, *ids = written(shop, 7)
    table = shop.tables.email
    job = shop.outbox.start_job("retry", status="failed")
    hold = sa.select(table).where(table.c.id.in_([first, ids[-1]])).with_for_update()
    with shop.engine.begin() as connection:
        connection.execute(hold)
        for _ in range(3):
            assert one_step(shop, job)
        assert (now(shop, job).state, now(shop, job).changed) == (JobState.RUNNING, 5)
    with shop.engine.begin() as connection:
        connection.execute(hold.where(table.c.id == first))
        done = finished(shop, job)
    assert (done.changed, done.unchanged) == (6, 1)
    assert shop.status(first) is Status.FAILED
    assert shop.status(second) is Status.PENDING


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_what_was_locked_is_left_at_the_end_if_it_has_ended_anew(shop: Shop) -> None:
    ids = written(shop, 7)
    doubtful, again, same = ids[-3:]
    table = shop.tables.email
    job = shop.outbox.start_job("retry", status="failed")
    hold = sa.select(table).where(table.c.id.in_([doubtful, again, same])).with_for_update()
    with shop.engine.begin() as connection:
        connection.execute(hold)
        while now(shop, job).changed < 4:
            assert one_step(shop, job)
    shop.later(1)
    shop.outbox.retry([doubtful, again])
    end(shop, [doubtful], Status.UNKNOWN)
    end(shop, [again], Status.FAILED)
    done = finished(shop, job)
    assert [shop.status(one) for one in (doubtful, again, same)] == [
        Status.UNKNOWN,
        Status.FAILED,
        Status.PENDING,
    ]
    assert (done.changed, done.unchanged) == (5, 2)


@pytest.mark.parametrize("column", ["redacted_at", "expires_at"])
def test_an_email_without_its_body_or_past_its_time_is_counted_as_unchanged(
    shop: Shop, column: str
) -> None:
    (left, *_) = written(shop, 3)
    table = shop.tables.email
    with shop.engine.begin() as connection:
        gone = sa.update(table).where(table.c.id == left)
        connection.execute(gone.values({column: shop.database.now()}))
    done = finished(shop, shop.outbox.start_job("retry", status="failed"))
    assert (done.changed, done.unchanged) == (2, 1)
    assert shop.status(left) is Status.FAILED


def test_jobs_take_turns(shop: Shop) -> None:
    written(shop, 6, tag="a")
    written(shop, 6, tag="b")
    jobs = [shop.outbox.start_job("retry", status="failed", tag=tag) for tag in "ab"]
    shop.runtime.job_pace.size = 2
    steps_of = list[int]()
    database = shop.database
    while ids := database.read(lambda c: rows.running(c, database)):
        steps_of.append(ids[0])
        one_step(shop, next(job for job in jobs if job.id == ids[0]))
        shop.later(0.01)
    assert steps_of[:4] == [jobs[0].id, jobs[1].id, jobs[0].id, jobs[1].id]
