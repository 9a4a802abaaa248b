"""The newsletters are found, counted or sampled, and stopped, on each database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from outbox import InvalidMessage, Priority, Status
from outbox.flask_ext.management import corrections
from outbox.flask_ext.management.newsletters import reports, stop
from outbox.store.queries import id_steps
from tests.support.shop.shell import stuck
from tests.support.shop.shop import START, Shop, addresses, newsletter

pytestmark = pytest.mark.each_database


def send(shop: Shop, tag: str, readers: int) -> None:
    """Enqueue a newsletter."""
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(readers), tag=tag, session=session)
        session.commit()


def tags(shop: Shop) -> list[str]:
    found = reports.newsletters(shop.runtime, before=None, limit=10)
    return [one.tag for one in found.newsletters]


def test_tags_of_bulk_email_come_newest_first(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reports.newsletters(shop.runtime, before=None, limit=10).newsletters == ()
    monkeypatch.setattr("outbox.store.search.tags.NEWEST", 2)
    monkeypatch.setattr("outbox.store.search.spread.PROBES", 5)
    failed = stuck(shop, Status.FAILED)
    with shop.engine.begin() as connection:
        email = shop.tables.email
        values = {"tag": "problem", "priority": int(Priority.BULK)}
        connection.execute(email.update().where(email.c.id == failed).values(**values))
    send(shop, "news", 12)
    for _ in range(6):
        shop.enqueue(tag="order")
    assert tags(shop) == ["news", "problem"]
    first = reports.newsletters(shop.runtime, before=None, limit=1)
    second = reports.newsletters(shop.runtime, before=first.next, limit=1)
    assert [one.tag for page in (first, second) for one in page.newsletters] == ["news", "problem"]
    assert second.next is None
    with pytest.raises(InvalidMessage):
        reports.newsletters(shop.runtime, before=0, limit=1)


def test_those_that_wait_are_found_from_both_ends(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other look comes to them: they are neither the newest nor at a probe's place."""
    monkeypatch.setattr("outbox.store.search.tags.NEWEST", 1)
    monkeypatch.setattr("outbox.store.search.tags.WAITING", 1)
    monkeypatch.setattr("outbox.store.search.spread.PROBES", 2)
    shop.enqueue(tag="order")
    for days, tag in enumerate(("soon", "between", "late")):
        send_at = START + timedelta(days=36_500 + days)
        shop.enqueue(tag=tag, priority="bulk", send_at=send_at)
    shop.enqueue(tag="order")
    assert tags(shop) == ["late", "soon"]


def test_few_are_counted_and_many_are_sampled(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    send(shop, "news", 50)
    one = reports.newsletter(shop.runtime, "news")
    assert one is not None
    assert (one.emails, one.is_counted, one.waiting) == (50, True, 50)
    monkeypatch.setattr(reports, "OF_ONE", replace(reports.OF_ONE, counted=20))
    failed = stuck(shop, Status.FAILED)
    with shop.engine.begin() as connection:
        email = shop.tables.email
        connection.execute(email.update().where(email.c.id == failed).values(tag="news"))
    many = reports.newsletter(shop.runtime, "news")
    assert many is not None
    assert (many.emails, many.is_counted, many.problems) == (20, False, {Status.FAILED: 1})
    assert 0.9 < many.share(many.waiting) <= 1
    assert reports.newsletter(shop.runtime, "other") is None


def test_the_rest_is_stopped_part_by_part(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_steps, "LOOK", 3)
    monkeypatch.setattr(corrections, "MOST_CHANGED", 3)
    send(shop, "news", 7)
    shop.enqueue(tag="order")
    parts, after = [], None
    while True:
        part = stop.stop_part(shop.runtime, "news", after, "ada")
        parts.append(part.changed)
        after = part.next
        if after is None:
            break
    assert parts == [3, 3, 1]
    assert shop.outbox.counts() == {Status.CANCELLED: 7, Status.PENDING: 1}
    assert [one.result for one in shop.outbox.audit()] == [
        "1 cancelled", "3 cancelled", "3 cancelled",
    ]  # fmt: skip


@pytest.mark.databases("postgresql", "mariadb")
def test_what_another_transaction_holds_is_passed_over_and_told(shop: Shop) -> None:
    send(shop, "news", 3)
    with shop.session() as session:
        assert shop.outbox.cancel(id=2, session=session) == 1
        part = stop.stop_part(shop.runtime, "news", None, "ada")
        assert (part.changed, part.locked, part.next) == (2, 1, None)
        session.rollback()
    assert stop.stop_part(shop.runtime, "news", None, "ada").changed == 1
