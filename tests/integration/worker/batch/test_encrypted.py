"""A worker sends nothing that was changed since its encryption, and waits for a missing key."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
import sqlalchemy as sa

from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.encryption import keys
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.each_database


@pytest.fixture
def encrypted(shops: Shops, catcher: Catcher) -> Shop:
    return shops.open(MAIL_PORT=catcher.port, **keys("k1"))


def write(shop: Shop) -> None:
    """Enqueue two emails with a content of their own, and two that share a template."""
    with shop.session() as session:
        for name in "ab":
            mail = message(f"{name}@x.example", **{"Message-ID": f"<{name}@shop.example>"})
            shop.outbox.enqueue(mail, session=session)
        shop.outbox.enqueue_many(
            newsletter("Your code is {{ code }}."),
            addresses(2),
            session=session,
            fields=lambda address: {"code": address[:6]},
        )
        session.commit()


def change(shop: Shop, table: sa.Table, row_id: int, **values: Any) -> None:
    with shop.engine.begin() as connection:
        connection.execute(sa.update(table).where(table.c.id == row_id).values(**values))


def put_body(shop: Shop, row: Any, body: bytes, **values: Any) -> None:
    """Put a body into a content's row, and do all that a forger without the key can do."""
    change(shop, shop.tables.content, row.id, body=body, crc32=crc32(body), **values)


def exchange_contents(shop: Shop) -> None:
    first, second, _ = shop.rows(shop.tables.content)
    put_body(shop, first, second.body)
    put_body(shop, second, first.body)


def exchange_content_ids(shop: Shop) -> None:
    first, second, *_ = shop.rows(shop.tables.email)
    change(shop, shop.tables.email, first.id, content_id=second.content_id)
    change(shop, shop.tables.email, second.id, content_id=first.content_id)


def flip_a_bit(shop: Shop) -> None:
    for row in shop.rows(shop.tables.content)[:2]:
        put_body(shop, row, row.body[:20] + bytes([row.body[20] ^ 1]) + row.body[21:])


def cut(shop: Shop) -> None:
    first, second, _ = shop.rows(shop.tables.content)
    put_body(shop, first, first.body[:-1])
    put_body(shop, second, second.body[:5])


def call_it_clear(shop: Shop) -> None:
    for row in shop.rows(shop.tables.content)[:2]:
        put_body(shop, row, row.body, key_id=None)


def exchange_headers_and_values(shop: Shop) -> None:
    *_, first, second = shop.rows(shop.tables.email)
    change(shop, shop.tables.email, first.id, headers=second.headers)
    change(shop, shop.tables.email, second.id, headers=first.headers)


def take_the_values_out(shop: Shop) -> None:
    for row in shop.rows(shop.tables.email)[2:]:
        change(shop, shop.tables.email, row.id, merge=None)


def write_headers_in_clear(shop: Shop) -> None:
    for row in shop.rows(shop.tables.email)[2:]:
        headers = f"To: {row.recipient}\r\nMessage-ID: {row.message_id}\r\n".encode()
        change(shop, shop.tables.email, row.id, headers=headers, merge='["r00009"]')


OF_CONTENTS = (exchange_contents, exchange_content_ids, flip_a_bit, cut, call_it_clear)
OF_EMAILS = (exchange_headers_and_values, take_the_values_out, write_headers_in_clear)


@pytest.mark.matrix
@pytest.mark.parametrize("tamper", [*OF_CONTENTS, *OF_EMAILS], ids=lambda tamper: tamper.__name__)
def test_what_was_changed_or_exchanged_is_not_sent_and_stops_no_other_email(
    tamper: Callable[[Shop], None], encrypted: Shop, catcher: Catcher
) -> None:
    write(encrypted)
    tamper(encrypted)
    drain(encrypted.runtime)
    spoilt, whole = slice(0, 2), slice(2, 4)
    if tamper in OF_EMAILS:
        spoilt, whole = whole, spoilt
    rows = encrypted.rows(encrypted.tables.email)
    assert [row.status for row in rows[spoilt]] == ["failed", "failed"]
    assert [row.status for row in rows[whole]] == ["sent", "sent"]
    assert {mail.recipients[0] for mail in catcher.emails} == {row.recipient for row in rows[whole]}
    replies = {row.email_id: row.reply for row in encrypted.rows(encrypted.tables.attempt)}
    assert {"damaged" in replies[row.id] for row in rows[spoilt]} == {True}


@pytest.mark.long
def test_without_its_key_an_email_waits_uncharged_and_leaves_once_the_key_is_there(
    shops: Shops, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    write(shops.open(**keys("k1")))
    shop = shops.open(MAIL_PORT=catcher.port, **keys("k2"))
    other = shop.enqueue("c@x.example")
    with caplog.at_level(logging.ERROR, "outbox"):
        drain(shop.runtime)
    assert [mail.recipients for mail in catcher.emails] == [("c@x.example",)]
    waiting = [row for row in shop.rows(shop.tables.email) if row.id != other.id]
    assert {(row.status, row.attempts, row.crashes) for row in waiting} == {("pending", 0, 0)}
    assert min(row.waited for row in waiting) >= 5
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= len(lines) <= 2, "at most one for each of the two batches"
    assert "OUTBOX_ENCRYPTION_KEYS lacks the key k1, which emails need" in lines[0]
    detail = shop.outbox.get(waiting[0].id)
    assert detail is not None
    assert detail.subject == "(encrypted with the key k1, which is missing)"
    assert detail.attempt_list[-1].reply == "the worker lacks the encryption key k1"

    late = shops.open(MAIL_PORT=catcher.port, **keys("k2", "k1"))
    late.later(3600)
    drain(late.runtime)
    assert set(late.statuses()) == {"sent"}
    assert set(catcher.copies().values()) == {1}


def test_without_its_key_an_email_ends_failed_when_its_lifetime_is_over(
    shops: Shops, catcher: Catcher
) -> None:
    email = shops.open(**keys("k1")).enqueue()
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_LIFETIME=60, **keys("k2"))
    for _ in range(6):
        drain(shop.runtime)
        shop.later(100)
    assert shop.status(email.id) == "failed"
    assert not catcher.emails


@pytest.mark.long
def test_health_names_a_key_that_waiting_emails_need(encrypted: Shop, shops: Shops) -> None:
    write(encrypted)
    assert encrypted.outbox.health(ask=False).problems == ()
    keyless = shops.open(**keys("k2"))
    health = keyless.outbox.health(ask=False)
    assert not health.healthy
    assert [text for text in health.problems if "lacks the key k1" in text]
    drain(encrypted.runtime)
    assert keyless.outbox.health(ask=False).problems == ()
