"""One content, many recipients: what is each email's own."""

from __future__ import annotations

import email
from collections.abc import Iterator
from email import policy
from typing import Any

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.personalize import address_of, individuals, message_ids
from outbox.domain.message.render import RenderedMessage

CONTENT = b"From: a@b.example\r\nSubject: news\r\n\r\nhello\r\n"
CONTROLS = ["\r", "\n", "\r\n ", "\0", "\t", "\x1b", "\x85", "\u2028", "\u2029", "\ud800"]


def make(
    *recipients: Any, sender: str = "a@b.example", smtputf8: bool = False
) -> list[RenderedMessage]:
    ids = message_ids(sender)
    return list(individuals(recipients, ids, sender=sender, content=CONTENT, smtputf8=smtputf8))


def to_of(mail: RenderedMessage) -> tuple[str, str]:
    found = email.message_from_string((mail.headers + mail.content).decode(), policy=policy.default)
    assert found.keys() == ["To", "Message-ID", "From", "Subject"]
    (address,) = found["To"].addresses
    return address.display_name, address.addr_spec


def test_each_has_a_to_and_a_message_id_of_its_own_before_the_shared_content() -> None:
    one, two = make("x@y.example", "z@y.example")
    assert (one.recipients, two.recipients) == (("x@y.example",), ("z@y.example",))
    assert one.message_id != two.message_id
    assert one.headers == f"To: x@y.example\r\nMessage-ID: {one.message_id}\r\n".encode()
    assert one.content is two.content is CONTENT
    assert one.size == len(one.headers) + len(CONTENT)


def test_two_runs_never_share_a_message_id() -> None:
    assert make("x@y.example")[0].message_id != make("x@y.example")[0].message_id


@pytest.mark.parametrize(
    "name",
    [
        "Jo",
        "Doe, Jo",
        'Jo "J" Doe',
        "Jö Döe",
        "Müller, Jörg (x) <y>",
        "a@b",
        "Ü " * 60,
        "名前",
        "=?",
    ],
)
def test_a_name_arrives_as_it_was_given(name: str) -> None:
    (mail,) = make((name, "x@y.example"))
    found, address = to_of(mail)
    assert (found.split(), address) == (name.split(), "x@y.example")
    assert mail.headers.isascii()
    assert max(map(len, mail.headers.split(b"\r\n"))) <= 998


def test_no_name_is_a_bare_address() -> None:
    assert [to_of(mail) for mail in make(("", "x@y.example"), (None, "x@y.example"))] == [
        ("", "x@y.example")
    ] * 2


@pytest.mark.parametrize("name", ["", "Jö", "Doe, Jo"])
def test_an_international_address_needs_smtputf8_with_and_without_a_name(name: str) -> None:
    (mail,) = make((name, "jö@bücher.example"))
    assert mail.recipients == ("jö@xn--bcher-kva.example",)
    assert mail.smtputf8
    assert to_of(mail) == (name, "jö@xn--bcher-kva.example")


def test_an_international_domain_alone_needs_nothing() -> None:
    (mail,) = make(("Jö", "x@bücher.example"))
    assert not mail.smtputf8
    assert mail.headers.isascii()


def test_a_content_that_needs_smtputf8_makes_every_email_need_it() -> None:
    assert make("x@y.example", smtputf8=True)[0].smtputf8


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
@pytest.mark.parametrize("name", ["{}", "Jo{}Bcc: evil@x.example", "Jö {}"])
def test_a_control_character_in_a_name_is_refused(name: str, control: str) -> None:
    with pytest.raises(InvalidMessage, match="control characters") as caught:
        make((name.format(control), "x@y.example"))
    assert caught.value.field == "recipients"


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_a_control_character_in_an_address_is_refused(control: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        make(f"x{control}@y.example")
    assert caught.value.field == "recipients"


@pytest.mark.parametrize(
    "recipient", [None, 5, (), ("x@y.example",), ("a", "b", "c"), b"x@y.example"]
)
def test_what_is_neither_an_address_nor_a_pair_is_refused(recipient: Any) -> None:
    with pytest.raises(InvalidMessage, match="recipients"):
        make(recipient)
    with pytest.raises(InvalidMessage, match="recipients"):
        address_of(recipient)


@pytest.mark.parametrize("recipient", [(5, "x@y.example"), ("Jo", None), ("Jo", 5), "Jo"])
def test_a_name_and_an_address_are_texts(recipient: Any) -> None:
    with pytest.raises(InvalidMessage, match="recipients"):
        make(recipient)


def test_a_name_that_no_line_can_hold_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="cannot be written in a header"):
        make(("n" * 990, "x@y.example"))


def test_an_encoded_word_in_a_name_is_not_decoded_on_the_way() -> None:
    (mail,) = make(("=?utf-8?q?" + "a" * 90 + "=0D=0ABcc=3A_e?=", "x@y.example"))
    assert email.message_from_bytes(mail.headers).keys() == ["To", "Message-ID"]


def test_the_address_of_a_pair_is_its_second_as_it_was_given() -> None:
    assert address_of(("Jo", "x@Bücher.example")) == "x@Bücher.example"
    with pytest.raises(InvalidMessage):
        address_of(("Jo", "none"))


def test_a_long_domain_still_leaves_room_for_the_message_id() -> None:
    (mail,) = make("x@y.example", sender="a@" + ".".join(["b" * 60] * 4))
    assert len(mail.message_id) <= 250


def test_recipients_are_read_one_by_one() -> None:
    def endless() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"x{number}@y.example"

    emails = individuals(
        endless(), message_ids("a@b.example"), sender="a@b.example", content=CONTENT, smtputf8=False
    )
    assert next(emails).recipients == ("x1@y.example",)
    assert next(emails).recipients == ("x2@y.example",)
