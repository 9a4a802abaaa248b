"""The headers that the outbox adds: from the arguments to what a reader gets."""

from __future__ import annotations

import email
from email.message import Message
from typing import Any

import flask_mail
import pytest

from outbox import InvalidMessage, KeyConflict
from outbox.domain.header.added_headers import AddedHeaders
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = pytest.mark.one_database("sqlite")

URL = "https://shop.example/unsubscribe/" + "7f3a" * 40
ONE_CLICK = "List-Unsubscribe=One-Click"


def url_of(address: str) -> str:
    return f"https://shop.example/u?who={address.partition('@')[0]}"


def arrived(shop: Shop, catcher: Catcher) -> list[Message[Any, Any]]:
    drain(shop.runtime)
    return [email.message_from_bytes(mail.content) for mail in catcher.emails]


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "large"])
def test_one_email_has_the_headers_that_were_asked_for(
    sending: Shop, catcher: Catcher, size: int
) -> None:
    with sending.session() as session:
        sending.outbox.enqueue(
            message(text="x\n" * size), session=session, unsubscribe=URL, auto_submitted=True
        )
        session.commit()
    (mail,) = arrived(sending, catcher)
    assert mail.get_all("List-Unsubscribe") == [f"<{URL}>"]
    assert mail.get_all("List-Unsubscribe-Post") == [ONE_CLICK]
    assert mail.get_all("Auto-Submitted") == ["auto-generated"]
    assert mail["Subject"] == "Order 1"


@pytest.mark.long
def test_a_large_content_is_still_stored_once(shop: Shop) -> None:
    for address in addresses(2):
        with shop.session() as session:
            mail = message(address, text="x\n" * 100_000)
            shop.outbox.enqueue(mail, session=session, unsubscribe=url_of(address))
            session.commit()
    assert shop.count(shop.tables.content) == 1


def test_a_message_of_flask_mail_has_them_too(sending: Shop, catcher: Catcher) -> None:
    flask_mail.Mail(sending.app)
    with sending.app.app_context(), sending.session() as session:
        mail = flask_mail.Message("x", recipients=["a@x.example"], sender="shop@shop.example")
        sending.outbox.enqueue(mail, session=session, auto_submitted="auto-replied")
        session.commit()
    (found,) = arrived(sending, catcher)
    assert found["Auto-Submitted"] == "auto-replied"
    assert found["List-Unsubscribe"] is found["List-Unsubscribe-Post"] is None


@pytest.mark.long
def test_each_reader_of_a_newsletter_has_a_url_of_their_own(
    sending: Shop, catcher: Catcher
) -> None:
    with sending.session() as session:
        added = sending.outbox.enqueue_many(
            newsletter(), addresses(30), session=session, unsubscribe=url_of, auto_submitted=True
        )
        session.commit()
    assert added == 30
    assert sending.count(sending.tables.content) == 1
    emails = arrived(sending, catcher)
    assert {mail["To"]: mail["List-Unsubscribe"] for mail in emails} == {
        address: f"<{url_of(address)}>" for address in addresses(30)
    }
    assert {mail["List-Unsubscribe-Post"] for mail in emails} == {ONE_CLICK}
    assert {mail["Auto-Submitted"] for mail in emails} == {"auto-generated"}


def test_of_many_messages_each_has_its_own_url(sending: Shop, catcher: Catcher) -> None:
    with sending.session() as session:
        sending.outbox.enqueue_many(
            (message(address) for address in addresses(3)),
            session=session,
            unsubscribe=lambda one: url_of(one["To"]),
        )
        session.commit()
    assert {mail["To"]: mail["List-Unsubscribe"] for mail in arrived(sending, catcher)} == {
        address: f"<{url_of(address)}>" for address in addresses(3)
    }


@pytest.mark.long
@pytest.mark.over_and_over
@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "large"])
def test_what_the_lines_for_all_readers_say_is_on_every_message(
    sending: Shop, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Whoever wants a header on every message changes only `AddedHeaders`."""
    monkeypatch.setattr(AddedHeaders, "common", lambda _: b"X-Shop: 7\r\n")
    monkeypatch.setattr(AddedHeaders, "names", lambda _: {"X-Shop": "message"})
    flask_mail.Mail(sending.app)
    text = "x\n" * size
    ordinary = flask_mail.Message("x", body=text, recipients=["a@x.example"], sender="s@x.example")
    other = flask_mail.Message(
        "x", body=text, recipients=["a@x.example"], sender="s@x.example",
        extra_headers={"X-Other": "8"},
    )  # fmt: skip
    own = flask_mail.Message(
        "x", recipients=["a@x.example"], sender="s@x.example", extra_headers={"X-Shop": "9"}
    )
    with sending.app.app_context(), sending.session() as session:
        for given in (ordinary, other, message(text=text)):
            sending.outbox.enqueue(given, session=session)
        sending.outbox.enqueue_many(newsletter(), addresses(2), session=session)
        with pytest.raises(InvalidMessage, match="already has this header"):
            sending.outbox.enqueue(own, session=session)
        session.commit()
    assert [mail.get_all("X-Shop") for mail in arrived(sending, catcher)] == [["7"]] * 5


def test_another_url_under_the_same_key_is_another_email(shop: Shop) -> None:
    with shop.session() as session:
        first = shop.outbox.enqueue(message(), session=session, key="k", unsubscribe=URL)
        again = shop.outbox.enqueue(message(), session=session, key="k", unsubscribe=URL)
        assert (again.id, again.created) == (first.id, False)
        with pytest.raises(KeyConflict):
            shop.outbox.enqueue(message(), session=session, key="k", unsubscribe=URL + "x")
        session.commit()
    assert shop.statuses() == ["pending"]


def refusals(shop: Shop, session: Any) -> dict[str, Any]:
    outbox, two = shop.outbox, message("a@x.example", "b@x.example")
    own = message(**{"List-Unsubscribe": "<https://shop.example/u>"})
    return {
        "two readers of one email": lambda: outbox.enqueue(two, session=session, unsubscribe=URL),
        "a header of its own": lambda: outbox.enqueue(own, session=session, unsubscribe=URL),
        "no https": lambda: outbox.enqueue(
            message(), session=session, unsubscribe="http://shop.example/u"
        ),
        "one URL for all readers": lambda: outbox.enqueue_many(
            newsletter(),
            addresses(2),
            session=session,
            unsubscribe=URL,  # type: ignore[arg-type]
        ),
        "a function that makes no URL": lambda: outbox.enqueue_many(
            newsletter(), addresses(2), session=session, unsubscribe=lambda address: address
        ),
    }


def test_what_cannot_be_unsubscribed_so_is_refused_and_the_transaction_goes_on(shop: Shop) -> None:
    with shop.session() as session:
        for ask in refusals(shop, session).values():
            with pytest.raises(InvalidMessage) as caught:
                ask()
            assert caught.value.field == "unsubscribe"
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    assert shop.statuses() == ["pending"]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_reader_whose_url_is_not_found_is_not_passed_over(shop: Shop, missing: int) -> None:
    readers = addresses(3)
    links = [reader for place, reader in enumerate(readers) if place != missing]
    with shop.session() as session:
        with pytest.raises(RuntimeError, match="StopIteration"):
            shop.outbox.enqueue_many(
                newsletter(),
                readers,
                session=session,
                unsubscribe=lambda address: next(
                    f"https://x.example/{link}" for link in links if link == address
                ),
            )
        session.commit()
    assert shop.count(shop.tables.email) == 0
