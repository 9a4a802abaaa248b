"""What a job's row says of a person: as little as the tables say, and nothing once it is done."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from outbox import JobState, Status
from outbox.store.encryption.cipher import MissingKey
from outbox.store.jobs.forget import KEPT, purge_jobs
from outbox.worker.jobs import run_jobs
from tests.integration.store.jobs.work import finished, now, one_step, written
from tests.support.shop.encryption import keys
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.one_database("postgresql")

ADA = "r00000@readers.example"


def texts(shop: Shop) -> str:
    """Return all that the tables of jobs and of the audit say."""
    rows = [*shop.rows(shop.tables.job), *shop.rows(shop.tables.audit)]
    return " ".join(str(value) for row in rows for value in row)


@pytest.mark.parametrize("key", [(), ("one",)])
def test_a_filter_that_names_a_person_is_removed_with_the_jobs_end(
    shops: Shops, key: tuple[str, ...]
) -> None:
    shop = shops.open(**keys(*key) if key else {})
    written(shop, 3)
    job = shop.outbox.start_job("retry", status="failed", recipient=ADA, by="ada")
    assert job.filters == {"status": "failed", "recipient": ADA}
    assert (ADA in texts(shop)) is (not key)
    done = finished(shop, job)
    assert (done.changed, done.filters) == (1, {"status": "failed", "recipient": None})
    assert ADA not in texts(shop)
    assert [one.what for one in shop.outbox.audit()] == [
        {"job": job.id, "do": "retry"},
        {"job": job.id, "do": "retry", "status": "failed", "by": "recipient"},
    ]


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("key", [(), ("one",)])
@pytest.mark.parametrize(
    "filters",
    [
        {"recipient": ADA},
        {"tag": f"for {ADA.upper()}"},
        {"key": f"order of {ADA}"},
        {"tag": f"{ADA}.invite"},
        {"key": f"order.{ADA}"},
    ],
)
def test_an_erasure_ends_the_jobs_that_name_the_person(
    shops: Shops, key: tuple[str, ...], filters: dict[str, Any]
) -> None:
    shop = shops.open(SECRET_KEY="secret", **keys(*key) if key else {})
    ids = written(shop, 2)
    job = shop.outbox.start_job("retry", status="failed", **filters)
    other = shop.outbox.start_job("retry", status="failed", tag="news")
    longer = shop.outbox.start_job("retry", status="failed", recipient=f"j.{ADA}")
    shop.outbox.erase(ADA)
    ended = now(shop, job)
    assert (ended.state, ended.changed) == (JobState.DONE, 0)
    assert ended.reason == "ended, because its filter named an erased person"
    assert not one_step(shop, job)
    assert now(shop, other).state is JobState.RUNNING
    assert now(shop, longer).filters["recipient"] == f"j.{ADA}"
    shop.outbox.erase(f"j.{ADA}")
    assert now(shop, longer).state is JobState.DONE
    assert ADA not in texts(shop).lower()
    assert shop.status(ids[1]) is Status.FAILED


def test_an_erasure_does_not_ask_what_it_cannot_decrypt(shops: Shops) -> None:
    written(shops.open(**keys("one")), 1)
    shop = shops.open(**keys("one"))
    job = shop.outbox.start_job("retry", status="failed", recipient="b@x.example")
    shops.open(SECRET_KEY="secret", **keys("two")).outbox.erase(ADA)
    assert now(shop, job).state is JobState.DONE


def test_a_job_whose_key_is_lacking_is_stopped_and_tells_why(shops: Shops) -> None:
    shop = shops.open(**keys("one"))
    written(shop, 2)
    job = shop.outbox.start_job("retry", status="failed", recipient=ADA)
    bare = shops.open(**keys("two"))
    bare.runtime.clock = lambda: 100.0  # the turn does not end by time
    assert not run_jobs(bare.runtime)
    stopped = now(bare, job)
    assert (stopped.state, stopped.filters["recipient"]) == (JobState.STOPPED, None)
    assert stopped.reason == "OUTBOX_ENCRYPTION_KEYS lacks the key 'one'"
    both = shops.open(**keys("two", "one"))
    assert both.outbox.resume_job(job.id)
    assert finished(both, job).changed == 1


def test_sealed_filters_are_not_those_of_another_job(shops: Shops) -> None:
    shop = shops.open(**keys("one"))
    written(shop, 2)
    mine = shop.outbox.start_job("retry", status="failed", recipient=ADA)
    other = shop.outbox.start_job("cancel", recipient="b@x.example", tag="x")
    table = shop.tables.job
    with shop.engine.begin() as connection:
        sealed = sa.select(table.c.sealed).where(table.c.id == other.id).scalar_subquery()
        connection.execute(sa.update(table).where(table.c.id == mine.id).values(sealed=sealed))
    with pytest.raises(ValueError, match="not what was encrypted") as refusal:
        one_step(shop, mine)
    assert not isinstance(refusal.value, MissingKey)
    shop.runtime.clock = lambda: 100.0  # the turn does not end by time
    assert not run_jobs(shop.runtime)
    assert now(shop, mine).reason == "ValueError"


def test_a_subject_is_refused_where_subjects_are_encrypted(shops: Shops) -> None:
    shop = shops.open(**keys("one"))
    with pytest.raises(ValueError, match="subject"):
        shop.outbox.start_job("cancel", subject="Order")


def test_old_jobs_are_removed_and_those_that_run_stay(shop: Shop) -> None:
    written(shop, 2)
    done, stopped, runs = (shop.outbox.start_job("retry", status="failed") for _ in range(3))
    finished(shop, done)
    shop.outbox.stop_job(stopped.id)
    assert purge_jobs(shop.database) == 0
    shop.later(KEPT + 1)
    assert purge_jobs(shop.database) == 2
    assert [one.id for one in shop.outbox.jobs()] == [runs.id]
    assert json.loads(shop.rows(shop.tables.job)[0].filters) == {"status": "failed"}
