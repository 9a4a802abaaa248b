"""Each filter finds its emails, alone and with the others, and pages go on where one ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest

from outbox.store.search import candidates, id_bounds
from outbox.store.search import page as pages
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = pytest.mark.each_database

DAY = 86_400.0
TERMS = "Terms. " * 20_000


def listed(shop: Shop, limit: int = 1000, **filters: Any) -> list[int]:
    """Return the ids of all pages, which must be in order and without repetitions."""
    found, after = list[int](), None
    while True:
        page = shop.outbox.list(after=after, limit=limit, **filters)
        assert len(page.emails) <= limit
        found += [email.id for email in page]
        after = page.next
        if after is None:
            break
    assert len(found) == len(set(found))
    return found


def test_the_ends_of_the_calendar_are_moments_like_others(shop: Shop) -> None:
    email = shop.enqueue(tag="t")
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert listed(shop, since=first, until=last, tag="t") == [email.id]
    assert shop.outbox.dry_run("cancel", since=first, until=last, tag="t").emails == 1


def written(shop: Shop) -> dict[str, list[int]]:
    """Write emails over three days; return ids by what they have in common."""
    with shop.session() as session:
        enqueue, many = shop.outbox.enqueue, shop.outbox.enqueue_many
        order = message("Ada@x.example", subject="Order 1", **{"Message-ID": "<1@x.example>"})
        first = enqueue(order, session=session, tag="order", key="order-1").id
        both = message("bob@x.example", "ada@x.example", subject="Order 2")
        second = enqueue(both, session=session, tag="order").id
        session.commit()
        shop.later(DAY)
        many(newsletter(), [*addresses(20), "ada@x.example"], session=session, tag="news")
        session.commit()
        shop.later(DAY)
        emails = [message("ada@x.example", subject=f"ORDER {n}", text=TERMS) for n in (30, 31)]
        many(emails, session=session, tag="order")
        shop.outbox.cancel(id=second, session=session)
        session.commit()
    ids = [row.id for row in shop.rows(shop.tables.email)]
    news, large = ids[2:-2], ids[-2:]
    return {
        "recipient": [first, second, news[-1], *large],
        "subject": [first, second, *large],
        "tag": [first, second, *large],
        "key": [first],
        "message_id": [first],
        "status": [first, *news, *large],
        "since": [*news, *large],
        "until": [first, second, *news],
    }


def wanted(shop: Shop) -> dict[str, Any]:
    """Return the filters that `written` answers."""
    news, large = shop.outbox.list(tag="news"), shop.outbox.list(tag="order", limit=1)
    return {
        "recipient": "ADA@x.example",
        "subject": "order ",
        "tag": "order",
        "key": "order-1",
        "message_id": "<1@x.example>",
        "status": "pending",
        "since": news.emails[-1].created_at,
        "until": large.emails[0].created_at - timedelta(hours=1),
    }


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_filters_are_combined_freely(shop: Shop, number: int) -> None:
    ids = written(shop)
    filters = wanted(shop)
    for names in combinations(filters, number):
        both = set.intersection(*(set(ids[name]) for name in names))
        chosen = {name: filters[name] for name in names}
        assert listed(shop, **chosen) == sorted(both, reverse=True), names


@pytest.mark.long
def test_without_a_filter_all_are_listed_page_by_page(shop: Shop) -> None:
    written(shop)
    ids = [row.id for row in shop.rows(shop.tables.email)]
    for limit in (1, 2, 7, len(ids), 1000):
        assert listed(shop, limit) == ids[::-1]


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["recipient", "subject", "tag", "status"])
def test_each_list_goes_on_where_a_page_has_ended(shop: Shop, name: str) -> None:
    ids = written(shop)
    filters = wanted(shop)
    for limit in (1, 3):
        assert listed(shop, limit, **{name: filters[name]}) == sorted(ids[name], reverse=True), name


@pytest.mark.long
def test_a_page_looks_at_a_bounded_number_of_emails(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = written(shop)
    filters = wanted(shop)
    for module in (pages, candidates):
        monkeypatch.setattr(module, "MOST_READ", 8)
    few = shop.outbox.list(status="cancelled", until=filters["until"])
    assert (few.emails, few.next is not None) == ((), True)
    assert len(listed(shop, status="cancelled", until=filters["until"])) == 1
    for name in ("recipient", "subject", "tag", "status", "since", "until"):
        assert listed(shop, 2, **{name: filters[name]}) == sorted(ids[name], reverse=True), name


@pytest.mark.long
def test_the_newest_of_a_subject_come_first_whatever_content_they_have(shop: Shop) -> None:
    with shop.session() as session:
        for run in range(3):  # each run a content of several emails, between emails of their own
            shop.outbox.enqueue_many(newsletter(), addresses(4), session=session)
            mine = [message(each, subject="news", text=f"{run} {each}") for each in addresses(2)]
            shop.outbox.enqueue_many(mine, session=session)
        session.commit()
    ids = [row.id for row in shop.rows(shop.tables.email)]
    for limit in (1, 2, 3, 5, 18, 19):
        assert listed(shop, limit, subject="NEWS") == ids[::-1]


@pytest.mark.long
def test_the_bounds_of_a_time_are_found_though_ids_are_not_in_its_order(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_bounds, "CLOSE", 1)
    monkeypatch.setattr(id_bounds, "SLACK", timedelta(seconds=30))
    with shop.session() as session:
        for _ in range(60):
            shop.outbox.enqueue(message(), session=session)
        session.commit()
    rows = shop.rows(shop.tables.email)
    moments = {}
    with shop.engine.begin() as connection:
        table = shop.tables.email
        for place, row in enumerate(rows):
            late = 10 if place % 7 == 3 else 0  # a transaction that took its id early
            moments[row.id] = row.created_at.replace(microsecond=0) + timedelta(
                seconds=place + late
            )
            change = table.update().where(table.c.id == row.id)
            connection.execute(change.values(created_at=moments[row.id]))
        connection.execute(table.delete().where(table.c.id.in_([r.id for r in rows[20:40]])))
    kept = {email.id: email.created_at for email in shop.outbox.list(limit=1000)}
    for since in list(kept.values())[::5]:
        until = since + timedelta(seconds=15)
        expected = sorted((i for i, at in kept.items() if since <= at < until), reverse=True)
        assert listed(shop, since=since, until=until) == expected
