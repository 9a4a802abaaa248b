"""Emails that were written before they could be found are indexed later, in small steps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection

from outbox.domain.search.digests import recipient_digest
from outbox.flask_ext.management.privacy.erase import Erasure, Left
from outbox.store.connection.database import Database
from outbox.store.inserts import lookup
from outbox.store.search import fill
from tests.integration.store.search.test_find import listed
from tests.integration.store.search.test_lookup import MANY, TERMS, WAYS, expected, pairs
from tests.support.shop.shop import Shop, Shops, message, newsletter

pytestmark = pytest.mark.each_database


def unindexed(shops: Shops) -> Shop:
    """Return a shop whose emails were all written without an index."""
    shop = shops.open(OUTBOX_SEARCH=[])
    with shop.session() as session:
        for way in WAYS.values():
            way(shop, session)
        shop.outbox.enqueue(message(subject="Terms", text=f"Our {TERMS}"), session=session)
        session.commit()
    return shop


@pytest.mark.long
@pytest.mark.each_driver
def test_all_emails_are_found_afterwards_and_a_second_run_changes_nothing(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "FILL_CHUNK", 40)
    unindexed(shops)
    shop, seen = shops.open(), list[tuple[int, int]]()
    for _ in range(2):
        assert shop.outbox.index(progress=lambda done, of: seen.append((done, of))) == 0
        assert pairs(shop) == expected(shop)
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1]
    (newest,) = shop.rows(shop.tables.email)[-1:]
    assert listed(shop, subject="terms") == [newest.id]
    assert len(listed(shop, subject="news")) == 3 * MANY
    assert len(listed(shop, recipient="r00001@readers.example")) == 6


@pytest.mark.long
def test_only_what_the_setting_names_is_indexed(shops: Shops) -> None:
    unindexed(shops)
    shop = shops.open(OUTBOX_SEARCH=["subject"])
    assert shop.outbox.index() == 0
    assert shop.count(shop.tables.lookup) == 0
    assert len(listed(shop, subject="news")) == 3 * MANY


def test_the_subject_of_one_reader_is_never_that_of_a_newsletter(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SEARCH=[])
    readers = {"ada@x.example": "Ada Lovelace", "bob@x.example": "Bob"}
    for subject in ("Hello {{ name }}", "Ink for all"):
        mail = newsletter("Dear {{ name }}")
        mail.replace_header("Subject", subject)
        with shop.session() as session:
            shop.outbox.enqueue_many(
                mail, readers, session=session, fields=lambda to: {"name": readers[to]}
            )
            session.commit()
    assert shops.open().outbox.index() == 0
    assert [row.subject for row in shop.rows(shop.tables.content)] == [None, "ink for all"]


def terms_with(shop: Shop, *subjects: str | None) -> None:
    """Enqueue an email for each of these subjects, all of which share one large content."""
    with shop.session() as session:
        for subject in subjects:
            mail = message(text=TERMS)
            del mail["Subject"]
            if subject is not None:
                mail["Subject"] = subject
            shop.outbox.enqueue(mail, session=session)
            session.commit()


@pytest.mark.matrix
@pytest.mark.parametrize(
    "subjects",
    [("Order 1", "Order 2", "Order 1"), ("Order 1", "Order 1", None), (None, "Order 1", "Order 1")],
)
def test_no_email_is_found_by_the_subject_of_another_one(
    shops: Shops, subjects: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "FILL_CHUNK", 1)
    terms_with(shops.open(OUTBOX_SEARCH=[]), *subjects)
    shop = shops.open()
    assert shop.outbox.index() == 0
    assert [row.subject for row in shop.rows(shop.tables.content)] == [None]
    assert listed(shop, subject="order") == []


def test_emails_that_share_a_large_content_are_found_by_the_subject_that_they_all_have(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "FILL_CHUNK", 1)
    terms_with(shops.open(OUTBOX_SEARCH=[]), "Our terms", "OUR  terms", "Our terms")
    shop = shops.open()
    assert shop.outbox.index() == 0
    assert [row.subject for row in shop.rows(shop.tables.content)] == ["our terms"]
    assert listed(shop, subject="our") == [row.id for row in shop.rows(shop.tables.email)][::-1]


def test_emails_whose_bodies_are_gone_stop_no_other(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SEARCH=["recipient", "message_id"], SECRET_KEY="secret")
    with shop.session() as session:
        shop.outbox.enqueue(message("ada@x.example"), session=session)
        shop.outbox.enqueue(message("b@x.example"), session=session, redact="when sent")
        left = shop.outbox.enqueue(message("c@x.example", subject="Terms"), session=session)
        session.commit()
    shop.outbox.erase("ada@x.example")
    shop.outbox.cancel_now(left.id - 1)
    shop = shops.open()
    assert shop.outbox.index() == 0
    assert listed(shop, subject="terms") == [left.id]


def test_a_content_that_was_emptied_meanwhile_gets_no_subject(shops: Shops) -> None:
    terms_with(shops.open(OUTBOX_SEARCH=[]), "Ada's terms")
    shop = shops.open()

    def erase(done: int, of: int) -> None:
        if done == of:  # all emails were seen, and no subject of a large content is stored
            table = shop.tables.content
            with shop.engine.begin() as connection:
                connection.execute(table.update().values(redacted_at=table.c.created_at, body=b""))

    assert shop.outbox.index(progress=erase) == 0
    assert [row.subject for row in shop.rows(shop.tables.content)] == [None]


@pytest.mark.databases("postgresql", "mariadb")
def test_an_email_that_is_locked_has_its_say_in_the_subject_of_its_content(shops: Shops) -> None:
    terms_with(shops.open(OUTBOX_SEARCH=[]), "Order 1", "Order 2")
    shop = shops.open()
    first, _ = shop.rows(shop.tables.email)
    with shop.engine.begin() as connection:
        table = shop.tables.email
        connection.execute(table.select().where(table.c.id == first.id).with_for_update())
        assert shop.outbox.index() == 1
    assert [row.subject for row in shop.rows(shop.tables.content)] == [None]


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_what_another_transaction_removes_is_left_out_and_told(shops: Shops) -> None:
    shop = unindexed(shops)
    (first, *_) = shop.rows(shop.tables.email)
    indexed = shops.open()
    with shop.engine.begin() as connection:
        table = shop.tables.email
        connection.execute(table.select().where(table.c.id == first.id).with_for_update())
        assert indexed.outbox.index() == 1
    assert first.id not in {row.email_id for row in shop.rows(shop.tables.lookup)}
    assert indexed.outbox.index() == 0
    assert pairs(shop) == expected(shop)


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("search", [[], ["recipient"]], ids=["never indexed", "indexed before"])
def test_an_erasure_at_the_same_moment_leaves_nothing_that_leads_to_the_person(
    shops: Shops, monkeypatch: pytest.MonkeyPatch, search: list[str]
) -> None:
    """The lookup has a plain digest: whoever has a list of addresses could try them all."""
    ada = "ada@x.example"
    written = shops.open(OUTBOX_SEARCH=search, SECRET_KEY="secret")
    email = written.enqueue(ada)
    written.outbox.cancel_now(email.id)
    indexing, other = (shops.open(SECRET_KEY="secret") for _ in range(2))
    erasures: list[Erasure] = []
    genuine = lookup.insert

    def insert(connection: Connection, database: Database, found: Any) -> None:
        with ThreadPoolExecutor(1) as another:  # between the read of the address and its digest
            erasures.append(another.submit(other.outbox.erase, ada, scan=True).result())
        genuine(connection, database, found)

    with monkeypatch.context() as patched:
        patched.setattr(lookup, "insert", insert)
        indexing.outbox.index()
    (done,) = erasures
    assert done.left == {email.id: Left.LOCKED}
    assert other.outbox.erase(ada).is_whole
    assert recipient_digest(ada) not in {row.digest for row in other.rows(other.tables.lookup)}
