"""A new key serves for what is new, and the old key for what it encrypted."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from sqlalchemy import select

from outbox.domain.errors import KeyConflict
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.encryption import keys
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter
from tests.support.shop.steps.purged import bared

pytestmark = pytest.mark.each_database

LARGE = "Terms. " * 20_000


def large(shop: Shop, to: str) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(to, text=LARGE), session=session)
        session.commit()


def key_ids(shop: Shop) -> list[str | None]:
    return [row.key_id for row in shop.rows(shop.tables.content)]


@pytest.mark.long
def test_what_an_old_key_encrypted_is_sent_after_a_rotation_and_after_encryption_ends(
    shops: Shops, catcher: Catcher
) -> None:
    settings: list[dict[str, Any]] = [{}, keys("k1"), keys("k2", "k1"), {}]
    for reader, config in zip(addresses(4), settings, strict=True):
        shops.open(**config).enqueue(reader)
    shop = shops.open(MAIL_PORT=catcher.port, **keys("k2", "k1"))
    assert key_ids(shop) == [None, "k1", "k2", None]
    drain(shop.runtime)
    assert {mail.recipients[0] for mail in catcher.emails} == set(addresses(4))


@pytest.mark.long
def test_a_large_content_is_found_again_under_its_own_key_only(shops: Shops) -> None:
    for config in ({}, keys("k1"), keys("k2", "k1")):
        shop = shops.open(**config)
        large(shop, "a@x.example")
        large(shop, "b@x.example")
    contents = shop.rows(shop.tables.content)
    assert [row.key_id for row in contents] == [None, "k1", "k2"]
    assert len({row.sha256 for row in contents}) == 3
    plain = contents[0].sha256
    assert plain == hashlib.sha256(contents[0].body).digest()


def test_a_key_that_was_given_another_id_shares_no_content_with_its_old_id(shops: Shops) -> None:
    large(shops.open(**keys("k1")), "a@x.example")
    renamed = {"OUTBOX_ENCRYPTION_KEYS": {"new": keys("k1")["OUTBOX_ENCRYPTION_KEYS"]["k1"]}}
    shop = shops.open(**renamed)
    large(shop, "b@x.example")
    assert key_ids(shop) == ["k1", "new"]


@pytest.mark.matrix
@pytest.mark.parametrize("many", [False, True])
def test_an_idempotency_key_means_the_same_email_after_a_rotation(shops: Shops, many: bool) -> None:
    def write(shop: Shop, text: str = "Thank you.") -> int:
        with shop.session() as session:
            if many:
                readers = ["a@x.example"]
                added = shop.outbox.enqueue_many(
                    newsletter(text), readers, session=session, key=lambda _: "order-1"
                )
            else:
                one = shop.outbox.enqueue(message(text=text), session=session, key="order-1")
                added = int(one.created)
            session.commit()
        return added

    assert write(shops.open()) == 1
    for config in (keys("k1"), keys("k2", "k1"), {}):
        assert write(shops.open(**config)) == 0
        with pytest.raises(KeyConflict):
            write(shops.open(**config), "Another text.")


@pytest.mark.databases("postgresql", "mariadb")
def test_so_it_does_where_a_process_with_the_old_key_has_just_enqueued_it(shops: Shops) -> None:
    """On MariaDB a plain read in this transaction does not see that email."""
    old, new = shops.open(**keys("k1")), shops.open(**keys("k2", "k1"))
    with new.session() as session:
        assert session.execute(select(new.orders)).all() == []
        first = old.enqueue(key="order-1")
        second = new.outbox.enqueue(message(), session=session, key="order-1")
        assert (second.id, second.created) == (first.id, False)
        session.commit()


@pytest.mark.databases("postgresql", "mariadb")
def test_another_email_that_it_has_just_enqueued_with_the_key_is_a_conflict(shops: Shops) -> None:
    old, new = shops.open(**keys("k1")), shops.open(**keys("k2", "k1"))
    with new.session() as session:
        assert session.execute(select(new.orders)).all() == []
        old.enqueue(key="order-1")
        with pytest.raises(KeyConflict):
            new.outbox.enqueue(message(text="Another text."), session=session, key="order-1")


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("redact", ["when sent", None])
def test_so_it_does_where_the_body_is_gone(
    shops: Shops, catcher: Catcher, redact: str | None
) -> None:
    """With the body went the id of the key under which the fingerprint is."""

    def again(text: str = "Thank you.", **config: Any) -> bool:
        shop = shops.open(MAIL_PORT=catcher.port, **config)
        options: dict[str, Any] = {} if redact is None else {"redact": redact}
        with shop.session() as session:
            new = message(text=text)
            email = shop.outbox.enqueue(new, session=session, key="order-1", **options)
            session.commit()
        if email.created:
            drain(shop.runtime)
            if redact is None:
                shop.later(10)
                assert bared(shop, 5) == 1
        return email.created

    assert again(**keys("k1"))
    assert [row.key_id for row in shops.open().rows(shops.open().tables.content)] == [None]
    for config in (keys("k1"), keys("k2", "k1"), keys("k1", "k2"), keys("k3")):
        assert not again(**config), "the last one lacks the key: nobody can tell"
    shops.open(**keys("k3")).enqueue()
    assert not again(), "emails were encrypted here"


def test_two_emails_of_a_run_with_one_key_conflict_also_under_encryption(shops: Shops) -> None:
    shop = shops.open(**keys("k1"))
    with shop.session() as session, pytest.raises(KeyConflict):
        shop.outbox.enqueue_many(
            newsletter(), addresses(2), session=session, key=lambda _: "order-1"
        )


def test_without_encryption_other_content_is_told_where_the_body_is_gone(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    shop.enqueue(key="order-1", redact="when sent")
    drain(shop.runtime)
    assert shop.rows(shop.tables.email)[0].redacted_at is not None
    with pytest.raises(KeyConflict):
        shop.enqueue("b@x.example", key="order-1", redact="when sent")


@pytest.mark.long
def test_check_names_a_key_that_emails_need_and_says_which_is_in_use(shops: Shops) -> None:
    shops.open(**keys("k1")).enqueue()
    shop = shops.open(**keys("k2", "k1"))
    shop.enqueue()
    check = runner(shop)
    assert "ok     emails are encrypted with the key k2" in check("check", code=1).output
    told = runner(shops.open(**keys("k3", "k2")))("check", code=1).output
    assert "error  OUTBOX_ENCRYPTION_KEYS lacks the key k1" in told
    assert "the key k2" not in told
