"""Each way to enqueue writes the same lookup, a hit is verified, and a purge leaves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy.orm import Session

from outbox.domain.config.retention import Retention
from outbox.domain.search import digests
from outbox.domain.search.digests import message_id_digest, recipient_digest
from outbox.store.lookup.find import ids_of_recipient
from outbox.store.retention.purge import purge
from tests.integration.store.inserts.test_insert import plain_driver
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = [pytest.mark.each_database, pytest.mark.each_driver]

TERMS = "Terms. " * 20_000
MANY = 101
"""One more than what is written together with `small_chunks`."""

WAYS: dict[str, Callable[[Shop, Session], object]] = {
    "one": lambda shop, session: shop.outbox.enqueue(message(), session=session),
    "one to several": lambda shop, session: shop.outbox.enqueue(
        message("Ada@x.example", "ada@X.example", "bob@x.example"), session=session
    ),
    "one with a key": lambda shop, session: shop.outbox.enqueue(
        message(), session=session, key="k"
    ),
    "large ones of one content": lambda shop, session: shop.outbox.enqueue_many(
        [message(each, text=TERMS) for each in addresses(3)], session=session
    ),
    "different ones": lambda shop, session: shop.outbox.enqueue_many(
        [message(each, text=each) for each in addresses(MANY)], session=session
    ),
    "some with keys": lambda shop, session: shop.outbox.enqueue_many(
        [message(each) for each in addresses(3)],
        session=session,
        key=lambda one: f"order {one['To']}",
    ),
    "a newsletter": lambda shop, session: shop.outbox.enqueue_many(
        newsletter(), addresses(MANY), session=session
    ),
    "a newsletter with keys": lambda shop, session: shop.outbox.enqueue_many(
        newsletter(), addresses(MANY), session=session, key=lambda to: f"news {to}"
    ),
    "a newsletter with fields": lambda shop, session: shop.outbox.enqueue_many(
        newsletter("{{ a }}"), addresses(MANY), session=session, fields=lambda a: {"a": a}
    ),
}


def pairs(shop: Shop) -> Counter[tuple[int, int]]:
    return Counter((row.digest, row.email_id) for row in shop.rows(shop.tables.lookup))


def expected(shop: Shop) -> Counter[tuple[int, int]]:
    """Return the lookup that the emails' rows ask for."""
    found = Counter[tuple[int, int]]()
    for row in shop.rows(shop.tables.email):
        to = shop.recipients(row.id) if row.recipients > 1 else [row.recipient]
        found.update({(digest, row.id) for digest in map(recipient_digest, to)})
        found[message_id_digest(row.message_id), row.id] += 1
    return found


@pytest.mark.matrix
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("driver", ["as it is", "plain"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_enqueue_writes_the_same_lookup(
    shop: Shop, way: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if driver == "plain":
        plain_driver(monkeypatch)
    with shop.session() as session:
        WAYS[way](shop, session)
        session.commit()
    assert shop.count(shop.tables.email) > 0
    assert pairs(shop) == expected(shop)


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_indexed_costs_no_row(shops: Shops, way: str) -> None:
    shop = shops.open(OUTBOX_SEARCH=[])
    with shop.session() as session:
        WAYS[way](shop, session)
        session.commit()
    assert shop.count(shop.tables.email) > 0
    assert shop.count(shop.tables.lookup) == 0
    assert {row.subject for row in shop.rows(shop.tables.content)} == {None}


@pytest.mark.long
def test_a_rollback_takes_the_lookup_with_it(shop: Shop) -> None:
    with shop.session() as session:
        for way in WAYS.values():
            way(shop, session)
        session.rollback()
    assert shop.count(shop.tables.lookup) == 0


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("search", [["recipient", "message_id"], []])
def test_a_purge_leaves_no_row_behind_whatever_is_indexed_now(
    shops: Shops, search: list[str]
) -> None:
    shop = shops.open()
    with shop.session() as session:
        for way in WAYS.values():
            way(shop, session)
        session.commit()
    kept = shop.enqueue("kept@x.example").id
    with shop.engine.begin() as connection:
        table = shop.tables.email
        ended = {"status": "cancelled", "due_at": None, "finished_at": table.c.created_at}
        connection.execute(table.update().where(table.c.id != kept).values(**ended))
    shop.later(1)
    later = shops.open(OUTBOX_SEARCH=search)
    later.database.offset = shop.database.offset
    assert sum(done.emails for done in purge(later.database, Retention.of_all(0.0))) > 0
    assert {row.email_id for row in shop.rows(shop.tables.lookup)} == {kept}
    assert pairs(shop) == expected(shop)


def test_an_address_with_the_same_digest_is_no_hit(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_digest", lambda kind, text: 7)
    ours = [shop.enqueue("Ada@x.example").id, shop.enqueue("b@x.example", "ada@x.example").id]
    shop.enqueue("bob@x.example")
    found, rest = shop.database.read(lambda c: ids_of_recipient(c, shop.database, "ada@X.example"))
    assert (found, rest) == (ours[::-1], None)
    page = shop.outbox.list(recipient="ada@X.example")
    assert [email.id for email in page] == ours[::-1]
    (third,) = shop.outbox.list(message_id=shop.email_row(ours[1] + 1).message_id)
    assert third.recipient == "bob@x.example"


def test_a_recipient_s_emails_are_found_in_steps(shop: Shop) -> None:
    ids = [shop.enqueue("ada@x.example").id for _ in range(5)]
    step = partial(ids_of_recipient, database=shop.database, address="ada@x.example", limit=2)
    found, below = shop.database.read(step)
    while below is not None:
        more, below = shop.database.read(partial(step, below=below))
        found += more
    assert found == ids[::-1]
