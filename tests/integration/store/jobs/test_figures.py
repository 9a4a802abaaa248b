"""A job's figures add up: what it found is changed by it, or unchanged."""

from __future__ import annotations

import pytest

from outbox import Status
from outbox.store.jobs import walk
from tests.integration.store.jobs.work import finished, one_step, written
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


def test_what_no_longer_fits_when_its_turn_comes_is_unchanged(shop: Shop) -> None:
    """The walk finds nothing of what somebody has resolved since."""
    ids = written(shop, 7, Status.UNKNOWN)
    job = shop.outbox.start_job("retry", status="unknown", by="ada")
    assert one_step(shop, job)
    assert shop.outbox.resolve(ids[0], "sent")
    assert shop.outbox.resolve(ids[1], "failed")
    done = finished(shop, job)
    assert (done.emails, done.changed, done.unchanged, done.share) == (7, 5, 2, 1.0)
    assert shop.outbox.audit()[0].result == "5 changed, 2 unchanged"


def test_so_is_what_fits_no_more_of_a_count_that_ended_at_its_bound(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MOST_COUNTED", 4)
    ids = written(shop, 7)
    job = shop.outbox.start_job("retry", status="failed")
    shop.outbox.retry(ids[:5])
    done = finished(shop, job)
    assert (done.emails, done.more, done.changed, done.unchanged) == (4, True, 2, 2)


def test_what_came_to_fit_since_is_no_unchanged_email(shop: Shop) -> None:
    failed = written(shop, 1, tag="news")
    written(shop, 5, Status.PENDING, tag="news")
    job = shop.outbox.start_job("cancel", tag="news")
    shop.outbox.retry(failed)
    done = finished(shop, job)
    assert (done.emails, done.changed, done.unchanged) == (5, 6, 0)
