"""With encryption keys no table has what a message says, whichever way it was enqueued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.orm import Session

from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.encryption import keys
from tests.support.shop.shop import START, Shop, Shops, message, newsletter
from tests.support.shop.watching.traces import traces

pytestmark = pytest.mark.each_database

WORDS = ("Zanzibar", "Timbuktu", "https://shop.example/reset/Kathmandu", "Ada Lovelace")
"""They stand in a subject, in a text, in a reader's values, and in a reader's name."""


def mail(*to: str, size: int = 1) -> Any:
    return message(*to, subject="About Zanzibar", text="To Timbuktu!\n" * size)


def template() -> Any:
    made = newsletter("To Timbuktu, by {{ link }}")
    made.replace_header("Subject", "About Zanzibar")
    return made


def link(_address: str) -> dict[str, object]:
    return {"link": "https://shop.example/reset/Kathmandu"}


WAYS: dict[str, Callable[[Shop, Session], object]] = {
    "one": lambda shop, session: shop.outbox.enqueue(mail("a@x.example"), session=session),
    "one large": lambda shop, session: shop.outbox.enqueue(
        mail("Ada Lovelace <a@x.example>", size=10_000), session=session
    ),
    "one to several": lambda shop, session: shop.outbox.enqueue(
        mail("a@x.example", "b@x.example"), session=session, key="order-1"
    ),
    "many messages": lambda shop, session: shop.outbox.enqueue_many(
        [mail(f"{name}@x.example") for name in "abc"], session=session
    ),
    "many readers": lambda shop, session: shop.outbox.enqueue_many(
        mail_to_all(), [("Ada Lovelace", "a@x.example"), "b@x.example"], session=session
    ),
    "a merge": lambda shop, session: shop.outbox.enqueue_many(
        template(), [("Ada Lovelace", "a@x.example"), "b@x.example"], session=session, fields=link
    ),
}


def mail_to_all() -> Any:
    made = newsletter("To Timbuktu!")
    made.replace_header("Subject", "About Zanzibar")
    return made


def write(shop: Shop, way: str) -> None:
    with shop.session() as session:
        WAYS[way](shop, session)
        session.commit()


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_a_message_stands_in_any_table_and_it_arrives_whole(
    way: str, shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, **keys("k1"))
    write(shop, way)
    assert traces(shop, *WORDS) == set()
    drain(shop.runtime)
    assert traces(shop, *WORDS) == set()
    assert set(shop.statuses()) == {"sent"}
    for mail in catcher.emails:
        assert b"About Zanzibar" in mail.content
        assert b"Timbuktu" in mail.content
        assert f"SIZE={len(mail.content)}" in mail.mail_options
    values = [b"reset/Kathmandu" in mail.content for mail in catcher.emails]
    assert all(values) is any(values) is (way == "a merge")


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS)
def test_without_keys_the_same_search_finds_it_in_clear(way: str, shop: Shop) -> None:
    write(shop, way)
    assert "outbox_content.body" in traces(shop, *WORDS)
    assert {row.key_id for row in shop.rows(shop.tables.content)} == {None}


def test_show_has_the_subject(shops: Shops) -> None:
    shop = shops.open(**keys("k1"))
    for way in ("one", "one large", "a merge"):
        write(shop, way)
    ids = [row.id for row in shop.rows(shop.tables.email)]
    assert {getattr(shop.outbox.get(id_), "subject", "") for id_ in ids} == {"About Zanzibar"}


def test_equal_contents_do_not_look_equal(shops: Shops) -> None:
    shop = shops.open(**keys("k1"))
    with shop.session() as session:
        for _ in range(2):
            shop.outbox.enqueue_many(mail_to_all(), ["a@x.example"], session=session, send_at=START)
        session.commit()
    first, second = shop.rows(shop.tables.content)
    assert first.size == second.size
    assert first.body[12:] != second.body[12:]
    assert first.crc32 != second.crc32
