"""Newsletters with fields: one stored content, and each reader gets their own."""

from __future__ import annotations

import email
from collections.abc import Iterator
from email import policy
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.domain.errors import InvalidMessage, KeyConflict
from outbox.store.queries import reports
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = pytest.mark.one_database("postgresql")

TEXT = "Hello {{ name }},\n\nyour code is {{code}}.\n" + "Some more of the news.\n" * 500


def fields_of(address: str) -> dict[str, object]:
    number = int(address[1:6])
    return {"name": f"Reader № {number} <&>", "code": number}


def made(subject: str = "News for {{ name }}") -> Any:
    content = newsletter(TEXT)
    content.replace_header("Subject", subject)
    content.add_alternative("<p>Hello {{ name }}</p>\n", subtype="html")
    return content


def write(shop: Shop, count: int, *, content: Any = None, **options: Any) -> int:
    with shop.session() as session:
        added = shop.outbox.enqueue_many(
            content or made(), addresses(count), session=session, fields=fields_of, **options
        )
        session.commit()
    return added


def parsed(octets: bytes) -> Any:
    return email.message_from_bytes(octets, policy=policy.default)


@pytest.mark.long
def test_each_reader_gets_their_own_values_over_one_stored_content(
    sending: Shop, catcher: Catcher
) -> None:
    assert write(sending, 30) == 30
    assert sending.count(sending.tables.content) == 1
    drain(sending.runtime)
    assert len(catcher.emails) == 30
    for mail in catcher.emails:
        found, values = parsed(mail.content), fields_of(mail.recipients[0])
        text, html = (found.get_body((kind,)).get_content() for kind in ("plain", "html"))
        assert found["Subject"] == f"News for {values['name']}"
        assert text.startswith(f"Hello {values['name']},\r\n\r\nyour code is {values['code']}.\r\n")
        assert "&lt;&amp;&gt;</p>" in html
        assert "{{" not in text + html
        assert mail.content.isascii()
        assert f"SIZE={len(mail.content)}" in mail.mail_options


def test_a_readers_row_is_small_however_large_the_content(shop: Shop) -> None:
    write(shop, 3)
    for row in shop.rows(shop.tables.email):
        assert len(row.headers) + len(row.merge) < 300
        assert row.size > 10_000


def test_each_try_sends_the_same_octets(sending: Shop, catcher: Catcher) -> None:
    tried = list[bytes]()

    def put_off(mail: CaughtMail) -> str | None:
        tried.append(mail.content)
        return "451 4.7.1 later" if len(tried) < 3 else None

    catcher.reply_to_content = put_off
    write(sending, 1)
    for _ in range(3):
        drain(sending.runtime)
        sending.later(3600)
    assert sending.statuses() == ["sent"]
    assert len(tried) == 3
    assert len(set(tried)) == 1


@pytest.fixture
def damaged(sending: Shop) -> Iterator[Shop]:
    yield sending
    drain(sending.runtime)
    assert sorted(sending.statuses()) == ["failed", "sent"]
    [row] = [row for row in sending.rows(sending.tables.email) if row.status == "failed"]
    [attempt] = sending.rows(sending.tables.attempt, sending.tables.attempt.c.email_id == row.id)
    assert attempt.reply == "the stored content is missing or damaged"


@pytest.mark.parametrize("values", ["", "[]", '["x"]', '["a", "b"]', '["a", 5]', "{}", "null"])
def test_values_that_were_damaged_are_not_sent_and_stop_no_other(
    values: str, damaged: Shop
) -> None:
    write(damaged, 2)
    email_ = damaged.tables.email
    with damaged.engine.begin() as connection:
        first = connection.execute(sa.select(sa.func.min(email_.c.id))).scalar_one()
        connection.execute(sa.update(email_).where(email_.c.id == first).values(merge=values))


def test_a_missing_value_is_an_error_at_enqueue_and_nothing_is_written(shop: Shop) -> None:
    def without(address: str) -> dict[str, object]:
        return {"name": "Ada"} if address == addresses(20)[19] else fields_of(address)

    with shop.session() as session:
        shop.order(session)
        with pytest.raises(InvalidMessage, match="code is missing"):
            shop.outbox.enqueue_many(made(), addresses(20), session=session, fields=without)
        session.commit()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (1, 0)


def test_a_function_may_ask_the_session_for_the_values(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session, "Ada")

        def asked(_: str) -> dict[str, object]:
            return {"name": session.execute(sa.select(shop.orders.c.customer)).scalar(), "code": 1}

        assert shop.outbox.enqueue_many(made(), addresses(5), session=session, fields=asked) == 5
        session.commit()
    assert {row.merge for row in shop.rows(shop.tables.email)} == {'["Ada", "1"]'}


@pytest.mark.long
def test_keys_unsubscription_and_fields_go_together(sending: Shop, catcher: Catcher) -> None:
    options: dict[str, Any] = {
        "key": lambda address: f"news-42 {address}",
        "unsubscribe": lambda address: f"https://shop.example/leave/{address}",
    }
    assert write(sending, 10, **options) == 10
    assert write(sending, 12, **options) == 2
    drain(sending.runtime)
    for mail in catcher.emails:
        found = parsed(mail.content)
        assert found["List-Unsubscribe"] == f"<https://shop.example/leave/{mail.recipients[0]}>"
        assert fields_of(mail.recipients[0])["name"] in found["Subject"]


def test_another_value_under_the_same_key_is_a_conflict(shop: Shop) -> None:
    def key(address: str) -> str:
        return f"news {address}"

    write(shop, 2, key=key)
    with shop.session() as session, pytest.raises(KeyConflict):
        shop.outbox.enqueue_many(
            made(),
            addresses(2),
            session=session,
            key=key,
            fields=lambda address: {**fields_of(address), "code": "other"},
        )


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [(([message()],), fields_of), ((made(), ["a@x.example"]), {"name": "Ada", "code": 1})],
    ids=["several messages", "no function"],
)
def test_fields_are_a_function_for_the_readers_of_one_message(
    arguments: Any, fields: Any, shop: Shop
) -> None:
    with shop.session() as session, pytest.raises(InvalidMessage, match="fields"):
        shop.outbox.enqueue_many(*arguments, session=session, fields=fields)


def test_fields_that_are_declined_are_sent_as_they_stand(sending: Shop, catcher: Catcher) -> None:
    with sending.session() as session:
        content = made("{{ name }}")
        sending.outbox.enqueue_many(content, addresses(1), session=session, fields=False)
        sending.outbox.enqueue_many([message("a@x.example")], session=session, fields=False)
        session.commit()
    drain(sending.runtime)
    found = next(one for one in map(parsed, contents(catcher)) if "{{" in one["Subject"])
    assert found["Subject"] == "{{ name }}"
    assert "Hello {{ name }}," in found.get_body(("plain",)).get_content()


def contents(catcher: Catcher) -> list[bytes]:
    return [mail.content for mail in catcher.emails]


def test_fields_that_nobody_fills_in_are_refused_and_nothing_is_written(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session)
        with pytest.raises(InvalidMessage, match=r"the header Subject: give a function") as caught:
            shop.outbox.enqueue_many(made(), addresses(3), session=session)
        session.commit()
    assert (caught.value.field, caught.value.index) == ("fields", None)
    assert shop.count(shop.orders) == 1
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 0


def test_the_list_shows_a_readers_own_subject(shop: Shop) -> None:
    write(shop, 1)
    [row] = shop.rows(shop.tables.email)
    found = shop.database.read(lambda c: reports.detail(c, shop.database, row.id))
    assert found is not None
    assert found.subject == "News for Reader № 0 <&>"


def test_functions_are_asked_for_the_address_as_it_was_given(shop: Shop) -> None:
    asked: list[str] = []

    def asked_for(address: str) -> str:
        asked.append(address)
        return f"https://x.example/{len(asked)}"

    with shop.session() as session:
        shop.outbox.enqueue_many(
            newsletter("Hello {{ name }}\n"),
            [("Ada", "ada@b\u00fccher.example")],
            session=session,
            fields=lambda address: {"name": asked_for(address)},
            unsubscribe=asked_for,
            key=asked_for,
        )
        session.commit()
    assert asked == ["ada@b\u00fccher.example"] * 3
    (row,) = shop.rows(shop.tables.email)
    assert row.recipient == "ada@xn--bcher-kva.example"
