"""A job finds what a search finds, by the same indexes, and counts it within bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from sqlalchemy import event

from outbox import JobState, Priority, Status
from outbox.store.jobs import walk
from outbox.store.transitions.release import give_back
from tests.integration.store.jobs.work import end, finished, now, one_step, written
from tests.integration.store.search.test_find import listed, wanted
from tests.integration.store.search.test_find import written as search_written
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("number", [1, 2, 7])
def test_a_dry_run_counts_what_a_search_finds(shop: Shop, number: int) -> None:
    search_written(shop)
    filters = wanted(shop)
    del filters["status"]
    for names in combinations(filters, number):
        chosen: dict[str, Any] = {name: filters[name] for name in names}
        found = shop.outbox.dry_run("cancel", **chosen)
        assert found.emails == len(listed(shop, status="pending", **chosen)), names


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("filters", [{"status": "failed"}, {"status": "failed", "tag": "news"}])
def test_a_walk_of_any_step_sees_each_email_once(shop: Shop, filters: dict[str, Any]) -> None:
    written(shop, 2, Status.UNKNOWN, tag="news")
    ids = written(shop, 8, tag="news")
    for most in (1, 4, 8, 100):
        assert finished(shop, shop.outbox.start_job("retry", **filters), most).changed == 8
        end(shop, ids, Status.FAILED)


def test_a_count_ends_at_its_bounds_and_says_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(shop, 10)
    monkeypatch.setattr(walk, "MOST_COUNTED", 8)
    found = shop.outbox.dry_run("retry", status="failed")
    assert (found.emails, found.more) == (8, True)
    written(shop, 12, Status.UNKNOWN)
    monkeypatch.setattr(walk, "COUNTED_AMONG", 18)
    found = shop.outbox.dry_run("retry", status="failed")
    assert (found.emails, found.more) == (6, True)
    monkeypatch.setattr(walk, "COUNTED_AMONG", 23)
    monkeypatch.setattr(walk, "MOST_COUNTED", 10)
    found = shop.outbox.dry_run("retry", status="failed")
    assert (found.emails, found.more) == (10, False)


@pytest.mark.long
def test_a_job_is_for_one_group_of_problems(shop: Shop) -> None:
    refused = [stuck(shop, Status.FAILED) for _ in range(3)]
    written(shop, 4)
    (group,) = [one for one in shop.outbox.problems().groups if one.code]
    chosen: dict[str, Any] = {"status": "failed", "domain": group.domain, "reply": "550"}
    assert shop.outbox.dry_run("retry", **chosen).emails == 3
    assert finished(shop, shop.outbox.start_job("retry", **chosen), 2).changed == 3
    assert {shop.status(one) for one in refused} == {Status.PENDING}
    assert shop.statuses().count("failed") == 4


@pytest.mark.matrix
@pytest.mark.parametrize("filters", [{"status": "failed"}, {"tag": "news", "status": "pending"}])
def test_how_far_a_job_is_goes_by_its_place_where_there_are_too_many_to_count(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any]
) -> None:
    monkeypatch.setattr(walk, "MOST_COUNTED", 2)
    action, ids = "cancel", written(shop, 10, Status.PENDING, tag="news")
    if filters["status"] == "failed":
        action = "retry"
        for email_id in ids:
            shop.later(60)
            end(shop, [email_id], Status.FAILED)
    job, shares = shop.outbox.start_job(action, **filters), list[float | None]()
    while now(shop, job).state is JobState.RUNNING:
        shares.append(now(shop, job).share)
        one_step(shop, job)
    assert shares == pytest.approx([0.0, 2 / 9, 5 / 9, 8 / 9], abs=0.001)


@pytest.mark.databases("postgresql", "mariadb")
def test_a_cancellation_takes_what_is_given_back_while_it_looks(shop: Shop) -> None:
    ids = written(shop, 3, Status.PENDING)
    (made,) = shop.claim(priority=Priority.BULK)
    job = shop.outbox.start_job("cancel", since=datetime.now(UTC) - timedelta(days=1))
    looks = list[str]()

    def given_back(_connection: object, _cursor: object, statement: str, *_: Any) -> None:
        if "due_at IS NOT NULL" in statement and not looks:
            looks.append(statement)
            shop.database.run(lambda c: give_back(c, shop.database, made.token))

    event.listen(shop.engine, "after_cursor_execute", given_back)
    try:
        done = finished(shop, job)
    finally:
        event.remove(shop.engine, "after_cursor_execute", given_back)
    assert looks
    assert (done.changed, {shop.status(one) for one in ids}) == (3, {Status.CANCELLED})
