"""Who a message goes to, who sends it, and what its envelope needs."""

from __future__ import annotations

import email
from datetime import UTC, datetime, timedelta, timezone
from email import policy
from email.message import EmailMessage, Message
from typing import Any

import pytest

from outbox.domain.message.render import RenderedMessage, render

SEND_AT = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)
KINDS = [EmailMessage, Message]


def make(kind: type[Message[Any, Any]] = EmailMessage, **headers: str) -> Message[Any, Any]:
    message = kind()
    for name, value in {"From": "a@b.example", "To": "c@d.example", **headers}.items():
        message[name.replace("_", "-")] = value
    message.set_payload("hello\n")
    return message


def ready(message: Message[Any, Any], send_at: datetime | None = None) -> RenderedMessage:
    return render(message, send_at=send_at, max_size=10**7, split_size=10**7)


def read(mail: RenderedMessage) -> EmailMessage:
    found = email.message_from_string((mail.headers + mail.content).decode(), policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_recipients_come_as_to_cc_bcc_each_in_its_order_and_once(
    kind: type[Message[Any, Any]],
) -> None:
    message = make(
        kind,
        To="Z <z@x.example>, a@x.example, z@x.example",
        Cc="friends: m@x.example, a@x.example;, k@x.example",
        Bcc="b@x.example, k@x.example",
    )
    wanted = ("z@x.example", "a@x.example", "m@x.example", "k@x.example", "b@x.example")
    assert ready(message).recipients == wanted


def test_local_parts_that_differ_in_case_are_two_recipients() -> None:
    assert len(ready(make(To="Jo@x.example, jo@x.example")).recipients) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["Bcc", "bcc", "Resent-Bcc"])
def test_bcc_is_never_on_the_wire(kind: type[Message[Any, Any]], name: str) -> None:
    mail = ready(make(kind, **{name.replace("-", "_"): "secret@x.example"}))
    assert b"secret" not in mail.headers + mail.content
    assert ("secret@x.example" in mail.recipients) is (name.lower() == "bcc")


def test_an_email_with_bcc_alone_goes_out() -> None:
    message = make(Bcc="secret@x.example")
    del message["To"]
    mail = ready(message)
    assert mail.recipients == ("secret@x.example",)
    assert b"secret" not in mail.content


@pytest.mark.parametrize("kind", KINDS)
def test_the_author_is_the_reverse_path_where_there_is_no_sender(
    kind: type[Message[Any, Any]],
) -> None:
    assert ready(make(kind, From="Shop, Inc. <a@b.example>".replace(",", ""))).sender == (
        "a@b.example"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_sender_comes_before_from(kind: type[Message[Any, Any]]) -> None:
    mail = ready(make(kind, From="x@b.example, y@b.example", Sender="Desk <desk@b.example>"))
    assert mail.sender == "desk@b.example"
    assert read(mail)["From"].addresses[1].addr_spec == "y@b.example"


@pytest.mark.parametrize("kind", KINDS)
def test_the_date_is_send_at_where_it_is_given(kind: type[Message[Any, Any]]) -> None:
    message = make(kind, Date="Mon, 01 Jan 2024 00:00:00 +0000")
    assert read(ready(message, SEND_AT))["Date"].datetime == SEND_AT
    assert message["Date"] == "Mon, 01 Jan 2024 00:00:00 +0000"


def test_send_at_in_another_zone_is_the_same_moment() -> None:
    moment = SEND_AT.astimezone(timezone(timedelta(hours=-7)))
    assert read(ready(make(), moment))["Date"].datetime == SEND_AT


@pytest.mark.parametrize("kind", KINDS)
def test_a_date_of_its_own_is_kept(kind: type[Message[Any, Any]]) -> None:
    mail = ready(make(kind, Date="Mon, 01 Jan 2024 00:00:00 +0000"))
    assert mail.content.count(b"Date:") == 1
    assert b"Date: Mon, 01 Jan 2024 00:00:00 +0000\r\n" in mail.content


@pytest.mark.parametrize("kind", KINDS)
def test_date_and_message_id_are_added_where_missing(kind: type[Message[Any, Any]]) -> None:
    mail = ready(make(kind))
    found = read(mail)
    assert found["Date"].datetime is not None
    assert found["Message-ID"] == mail.message_id
    assert mail.message_id.endswith("@b.example>")
    assert ready(make(kind)).message_id != mail.message_id


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_id_of_its_own_is_kept(kind: type[Message[Any, Any]]) -> None:
    mail = ready(make(kind, Message_ID="<own@id.example>"))
    assert mail.message_id == "<own@id.example>"
    assert mail.content.count(b"<own@id.example>") == 1


def test_a_sender_of_any_legal_length_gets_a_message_id() -> None:
    mail = ready(make(From="a@" + ".".join(["b" * 60] * 4)))
    assert len(mail.message_id) <= 250


def test_a_sender_with_an_address_literal_gets_a_message_id() -> None:
    assert ready(make(From="a@[IPv6:::1]")).message_id.endswith("@ipv6:::1>")


@pytest.mark.parametrize("kind", KINDS)
def test_an_international_domain_is_written_in_ascii_and_needs_no_extension(
    kind: type[Message[Any, Any]],
) -> None:
    mail = ready(make(kind, From="Jö <a@bücher.example>", To="Müller, <c@exämple.example>"[8:]))
    assert (mail.sender, mail.recipients) == (
        "a@xn--bcher-kva.example",
        ("c@xn--exmple-cua.example",),
    )
    assert not mail.smtputf8
    assert not mail.eightbit
    assert (mail.headers + mail.content).isascii()
    found = read(mail)
    assert found["From"].addresses[0].display_name == "Jö"
    assert found["From"].addresses[0].addr_spec == "a@xn--bcher-kva.example"
    assert found["To"].addresses[0].addr_spec == "c@xn--exmple-cua.example"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["From", "To", "Cc", "Bcc"])
def test_an_international_local_part_needs_smtputf8_and_stands_in_utf8(
    kind: type[Message[Any, Any]], name: str
) -> None:
    mail = ready(make(kind, **{name: "Jö Döe <jö@bücher.example>"}))
    assert mail.smtputf8
    if name != "Bcc":
        assert mail.eightbit
        assert "<jö@xn--bcher-kva.example>".encode() in mail.content
        assert read(mail)[name].addresses[0].display_name == "Jö Döe"


@pytest.mark.parametrize("kind", KINDS)
def test_an_international_name_alone_needs_nothing(kind: type[Message[Any, Any]]) -> None:
    mail = ready(make(kind, To='"Müller, Jörg" <c@d.example>, Ä <e@d.example>'))
    assert not mail.smtputf8
    assert mail.content.isascii()
    assert [(a.display_name, a.addr_spec) for a in read(mail)["To"].addresses] == [
        ("Müller, Jörg", "c@d.example"),
        ("Ä", "e@d.example"),
    ]
    assert b"<c@d.example>" in mail.content, "the address must not hide in an encoded word"


def test_eight_bit_text_needs_8bitmime_and_nothing_else() -> None:
    raw = "From: a@b.example\nTo: c@d.example\nMIME-Version: 1.0\n"
    raw += "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\nü\n"
    mail = ready(email.message_from_bytes(raw.encode()))
    assert mail.eightbit
    assert not mail.smtputf8
    assert mail.content.endswith("\r\n\r\nü\r\n".encode())


def test_the_size_is_what_goes_on_the_wire() -> None:
    message = make()
    mail = render(message, send_at=None, max_size=10**6, split_size=1)
    assert mail.size == len(mail.headers) + len(mail.content)
    assert (mail.headers + mail.content).endswith(b"\r\n\r\nhello\r\n")


@pytest.mark.parametrize(("split_size", "apart"), [(10**6, False), (1, True)])
def test_a_big_message_keeps_its_headers_apart_from_its_content(
    split_size: int, apart: bool
) -> None:
    mail = render(make(Subject="s"), send_at=None, max_size=10**6, split_size=split_size)
    assert bool(mail.headers) is apart
    assert mail.content.startswith(b"\r\n") is apart
    assert read(mail)["Subject"] == "s"
    assert read(mail).get_content() == "hello\r\n"


def test_equal_contents_of_big_emails_are_equal_whoever_they_go_to() -> None:
    one, two = (
        render(make(To=f"{name}@x.example"), send_at=None, max_size=10**6, split_size=1)
        for name in "ab"
    )
    assert one.content == two.content
    assert one.headers != two.headers
