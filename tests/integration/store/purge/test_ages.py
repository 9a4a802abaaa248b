"""Retention by status: each email goes in its own time, and is looked at no more than it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any

import pytest
from sqlalchemy import event

from outbox import Status
from outbox.domain.config.retention import read_retention
from outbox.domain.delivery.status import FINISHED
from outbox.store.retention import walk
from outbox.store.retention.purge import purge
from outbox.store.retention.removal import remove
from tests.integration.store.purge.test_purge import DAY, in_status
from tests.integration.store.transitions.test_uncharge import enqueued, judged, taken_back
from tests.support.shop.shop import Shop, sent
from tests.support.shop.steps.purged import removed

pytestmark = pytest.mark.each_database

RULE = read_retention("", {"sent": 10 * DAY, "failed": 30 * DAY, "other": 20 * DAY})


def left(shop: Shop) -> list[str]:
    return sorted(shop.statuses())


def noted(shop: Shop) -> list[tuple[int, str]]:
    return [(row.email_id, row.status) for row in shop.rows(shop.tables.straggler)]


@contextmanager
def deletions(shop: Shop) -> Iterator[list[str]]:
    """Collect the statements that take notes of stragglers away: each is a second look."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE FROM outbox_straggler"):
            seen.append(statement)

    event.listen(shop.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(shop.engine, "before_cursor_execute", note)


@pytest.mark.long
def test_each_status_has_its_own_age_and_an_unknown_email_none(shop: Shop) -> None:
    for status in (*sorted(FINISHED), Status.UNKNOWN):
        in_status(shop, status)
    for day, gone in ((9, 0), (2, 1), (8, 0), (2, 3), (8, 0), (2, 1), (900, 0)):
        shop.later(day * DAY)
        assert removed(shop, RULE) == gone
    assert left(shop) == ["unknown"]


@pytest.mark.long
def test_an_email_that_lives_longer_is_looked_at_once_when_its_time_has_come(shop: Shop) -> None:
    failed = in_status(shop, Status.FAILED)
    shop.later(11 * DAY)
    assert removed(shop, RULE) == 0
    assert noted(shop) == [(failed, "failed")]
    with deletions(shop) as looks:
        for _ in range(18):
            shop.later(DAY)
            assert removed(shop, RULE) == 0
        assert looks == []
        shop.later(2 * DAY)
        assert removed(shop, RULE) == 1
        assert len(looks) == 1


def test_an_email_that_was_retried_goes_in_the_time_of_its_new_end(shop: Shop) -> None:
    email_id = in_status(shop, Status.FAILED)
    shop.later(11 * DAY)
    assert removed(shop, RULE) == 0
    assert shop.outbox.retry(email_id).changed
    assert noted(shop) == [(email_id, "pending")]
    made = shop.sending(email_id)
    shop.record(made.token, [sent(email_id)])
    shop.later(9 * DAY)
    assert removed(shop, RULE) == 0
    shop.later(2 * DAY)
    assert removed(shop, RULE) == 1
    assert noted(shop) == []


def test_an_email_whose_refusal_was_taken_back_goes_in_the_time_of_its_new_end(shop: Shop) -> None:
    (email_id,) = enqueued(shop, 1)
    judged(shop, email_id)
    shop.later(11 * DAY)
    assert removed(shop, RULE) == 0
    assert noted(shop) == [(email_id, "failed")]
    assert taken_back(shop) == 1
    assert noted(shop) == [(email_id, "pending")]
    shop.later(3600)
    made = shop.sending(email_id)
    shop.record(made.token, [sent(email_id)])
    shop.later(11 * DAY)
    assert removed(shop, RULE) == 1


@pytest.mark.long
def test_a_person_s_age_holds_for_every_status(shop: Shop) -> None:
    for status in sorted(FINISHED):
        in_status(shop, status)
    shop.later(11 * DAY)
    assert removed(shop, RULE) == 1
    assert removed(shop, 5 * DAY) == 4
    assert left(shop) == []


def test_unfinished_emails_keep_no_purge_from_one_whose_time_has_come(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purge that ends early has looked at few, and all unfinished ones may be due again then."""
    monkeypatch.setattr(walk, "CHUNK", 2)
    in_status(shop, Status.FAILED)
    for _ in range(4):
        shop.enqueue()
    shop.later(11 * DAY)
    assert removed(shop, RULE) == 0
    assert sorted(status for _, status in noted(shop)) == ["failed", *["pending"] * 4]
    shop.later(20 * DAY)
    with closing(purge(shop.database, RULE)) as chunks:
        assert [chunk.emails for chunk in islice(chunks, 2)] == [0, 1]
    assert removed(shop, RULE) == 0
    assert left(shop) == ["pending"] * 4


def test_an_email_that_ended_otherwise_since_it_was_read_is_left(shop: Shop) -> None:
    """It was sent when it was read; a person's correction has made it younger or older since."""
    failed = in_status(shop, Status.FAILED)
    shop.later(20 * DAY)
    now = shop.email_row(failed).finished_at
    horizons = dict.fromkeys(FINISHED, now) | {Status.FAILED: now.replace(year=2000)}
    gone = shop.database.run(lambda c: remove(c, shop.database, [failed], horizons))
    assert gone == frozenset()
