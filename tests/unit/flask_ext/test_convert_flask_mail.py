"""What a `flask_mail.Message` gives is what Flask-Mail 0.10 would have sent, without its faults."""

from __future__ import annotations

import email
from collections.abc import Iterator
from email import policy
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses
from typing import Any

import flask
import flask_mail
import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import RenderedMessage, render
from outbox.flask_ext.messages.convert import standard

STRUCTURED = ("From", "To", "Cc", "Reply-To")


@pytest.fixture(autouse=True)
def app() -> Iterator[flask.Flask]:
    app = flask.Flask("test")
    app.config["MAIL_DEFAULT_SENDER"] = ("Shop", "shop@b.example")
    flask_mail.Mail(app)
    with app.app_context():
        yield app


def make(**fields: Any) -> flask_mail.Message:
    given = {"subject": "s", "body": "b\n", "recipients": ["c@d.example"], "date": 1_777_896_000.0}
    return flask_mail.Message(**{**given, **fields})


def ours(message: flask_mail.Message, **options: Any) -> RenderedMessage:
    found = standard(message, **options)
    return render(found, send_at=None, max_size=10**7, split_size=10**7)


def decoded(value: str) -> str:
    return str(make_header(decode_header(value.replace("\r\n", ""))))


def fields(message: Message[Any, Any]) -> dict[str, list[Any]]:
    """Return the headers as a reader sees them: addresses as a set, words decoded."""
    found: dict[str, list[Any]] = {}
    for name, value in message.items():
        text = str(value)
        if name == "Content-Transfer-Encoding":  # ours needs no 8BITMIME; the texts are compared
            continue
        seen: Any = decoded(text)
        if name == "Message-ID":  # ours has the sender's domain
            seen = text.partition("@")[0]
        if name in STRUCTURED:
            pairs = getaddresses([text.replace("\r\n", "")])
            seen = {(decoded(shown), address) for shown, address in pairs}
        if name == "Content-Type":
            seen = sorted(p for p in message.get_params([]) if p[0] != "boundary")
        if name == "Content-Disposition":
            seen = message.get_content_disposition(), message.get_filename()
        if name == "Subject":  # Flask-Mail loses blanks between encoded words
            seen = "".join(seen.split())
        found.setdefault(name.lower(), []).append(seen)
    return found


def tree(data: bytes) -> list[tuple[Any, ...]]:
    """Return each part's headers, file name and text."""
    parts = []
    for part in email.message_from_bytes(data, policy=policy.compat32).walk():
        body = None if part.is_multipart() else part.get_payload(decode=True)
        assert body is None or isinstance(body, bytes)
        text = None if body is None else body.replace(b"\r\n", b"\n").rstrip(b"\n")
        parts.append((fields(part), part.get_filename(), text))
    return parts


def same_as_flask_mail(message: flask_mail.Message) -> RenderedMessage:
    mail = ours(message)
    assert tree(mail.content) == tree(message.as_bytes())
    return mail


TEXT = flask_mail.Attachment("notes.txt", "text/plain", "plain text\n")
PDF = flask_mail.Attachment("terms.pdf", "application/pdf", b"%PDF\0\xff" * 200)
NAMED = flask_mail.Attachment(
    "Grüße 😀.pdf", "application/pdf", b"x", "inline", {"Content-ID": "<i>"}
)
BARE = flask_mail.Attachment(None, None, b"octets")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"body": None},
        {"body": ""},
        {"body": "Grüße, 😀\n"},
        {"body": "Grüße\n", "charset": "iso-8859-1"},
        {"body": "日本\n", "charset": "iso-2022-jp"},
        {"subject": ""},
        {"subject": "Grüße an alle: 😀 " * 8},
        {"subject": "a plain subject " * 10},
        {"html": "<p>hello</p>"},
        {"html": "", "body": None},
        {"alts": {"calendar": "BEGIN:VCALENDAR"}, "body": None},
        {"alts": {"html": "<p>x</p>", "calendar": "BEGIN:VCALENDAR"}},
        {"attachments": [TEXT]},
        {"attachments": [PDF, TEXT, BARE]},
        {"attachments": [NAMED], "html": "<img src='cid:i'>"},
        {"sender": "a@b.example"},
        {"sender": "Jo Doe <a@b.example>"},
        {"sender": ("Jo Doe", "a@b.example")},
        {"sender": ("Jörg Müller", "a@b.example")},
        {"recipients": ["c@d.example", ("Jo", "e@d.example"), "Jö <f@d.example>"]},
        {"recipients": ["c@bücher.example"]},
        {"cc": ["x@d.example", ("Ü", "y@d.example")], "bcc": ["z@d.example"]},
        {"reply_to": "r@d.example"},
        {"reply_to": ("Desk", "r@d.example")},
        {"extra_headers": {"X-Own": "1", "List-Unsubscribe": "<https://b.example/u>"}},
    ],
)
def test_headers_structure_text_and_attachments_are_flask_mail_s(given: dict[str, Any]) -> None:
    same_as_flask_mail(make(**given))


@pytest.mark.parametrize("body", [None, ""])
def test_html_alone_has_no_empty_text_beside_it(body: str | None) -> None:
    """Spam filters count an empty text against a message."""
    ((_, _, text),) = tree(ours(make(body=body, html="<p>Grüße</p>")).content)
    assert text == "<p>Grüße</p>".encode()


def test_html_alone_with_others_is_among_alternatives_or_beside_a_file() -> None:
    calendar = {"calendar": "BEGIN:VCALENDAR"}
    mail = ours(make(body=None, html="<p>x</p>", alts=calendar))
    found = email.message_from_bytes(mail.content)
    assert [part.get_content_type() for part in found.walk()] == [
        "multipart/mixed", "multipart/alternative", "text/calendar", "text/html",
    ]  # fmt: skip
    found = email.message_from_bytes(
        ours(make(body=None, html="<p>x</p>", attachments=[PDF])).content
    )
    assert [part.get_content_type() for part in found.walk()] == [
        "multipart/mixed", "text/html", "application/pdf",
    ]  # fmt: skip


def test_every_recipient_is_in_the_envelope_once_and_in_order() -> None:
    message = make(
        recipients=["z@d.example", ("Jo", "a@d.example"), "Z <z@d.example>"],
        cc=["a@d.example", "m@d.example"],
        bcc=["b@d.example", "m@d.example"],
    )
    mail = ours(message)
    assert mail.recipients == ("z@d.example", "a@d.example", "m@d.example", "b@d.example")
    assert b"b@d.example" not in mail.content


def test_to_keeps_its_order_and_has_each_entry_once() -> None:
    names = [f"n{number}@d.example" for number in range(9, 0, -1)]
    to = email.message_from_bytes(ours(make(recipients=[*names, names[0]])).content)["To"]
    assert [address for _, address in getaddresses([to])] == names


def test_a_missing_date_is_added_and_the_message_is_left_as_it_was() -> None:
    message = make(date=None)
    assert email.message_from_bytes(ours(message).content)["Date"]
    assert message.date is None


def test_the_message_id_is_the_message_s_own_each_time() -> None:
    message = make()
    assert ours(message).message_id == ours(message).message_id
    message.msgId = "<order-7@b.example>"
    assert ours(message).message_id == message.msgId


def test_the_same_email_made_again_has_the_same_fingerprint() -> None:
    def build(text: str) -> RenderedMessage:
        return ours(make(html="<p>x</p>", attachments=[PDF], bcc=["z@d.example"], body=text))

    assert build("one").fingerprint() == build("one").fingerprint()
    assert build("one").fingerprint() != build("two").fingerprint()


def test_the_message_is_left_as_it_was() -> None:
    message = make(html="<p>x</p>", attachments=[PDF], cc=["x@d.example"], extra_headers={"X": "1"})
    before = dict(vars(message))
    ours(message)
    assert vars(message) == before


def test_trap_8_an_extra_header_cannot_begin_another_one() -> None:
    message = make(extra_headers={"X-A": "ok\r\nBcc: evil@x.example"})
    assert b"\r\nBcc: evil@x.example" in message.as_bytes().replace(b"\n", b"\r\n")
    with pytest.raises(InvalidMessage, match="extra_headers"):
        ours(message)


def test_trap_9_long_ascii_lines_are_encoded() -> None:
    mail = ours(make(body="x" * 3000, html="y" * 3000))
    assert max(map(len, mail.content.split(b"\r\n"))) <= 998
    texts = [text for _, _, text in tree(mail.content)]
    assert texts[2:] == [b"x" * 3000, b"y" * 3000]


def test_trap_11_a_text_attachment_keeps_its_characters() -> None:
    message = make(attachments=[flask_mail.Attachment("a.txt", "text/plain", "5 €\n")])
    assert tree(message.as_bytes())[-1][2] == rb"5 \u20ac"
    assert tree(ours(message).content)[-1][2] == "5 €".encode()


@pytest.mark.parametrize("name", ["", "Jö", "Doe, Jö"])
def test_trap_11_a_non_ascii_local_part_goes_out_in_utf8(name: str) -> None:
    mail = ours(make(recipients=[(name, "jö@bücher.example")], subject="Grüße"))
    assert mail.recipients == ("jö@xn--bcher-kva.example",)
    assert mail.smtputf8
    found = email.message_from_string(mail.content.decode(), policy=policy.default)
    assert found["To"].addresses[0].display_name == name
    assert found["To"].addresses[0].addr_spec == "jö@xn--bcher-kva.example"
    assert found["Subject"] == "Grüße"


def test_trap_12_bare_line_ends_become_crlf() -> None:
    mail = ours(make(body="a\n.\nb\r.\rc\r\n"))
    assert mail.content.endswith(b"a\r\n.\r\nb\r\n.\r\nc\r\n")


def test_an_email_with_bcc_alone_has_no_empty_to() -> None:
    mail = ours(make(recipients=[], bcc=["z@d.example"]))
    assert email.message_from_bytes(mail.content)["To"] is None


@pytest.mark.parametrize("name", ["Shop, Inc.", "Shop (Berlin)", "Shop: News", "a@b"])
def test_a_sender_s_name_survives_that_flask_mail_joins_without_quotes(name: str) -> None:
    mail = ours(make(sender=(name, "a@b.example")))
    found = email.message_from_bytes(mail.content, policy=policy.default)
    assert mail.sender == "a@b.example"
    assert found["From"].addresses[0].display_name == name


def test_a_name_with_a_comma_or_quotes_is_quoted() -> None:
    names = ["Doe, Jo", 'Jo "J" D', "Döe, Jö"]
    mail = ours(make(recipients=[(name, f"n{i}@d.example") for i, name in enumerate(names)]))
    found = email.message_from_bytes(mail.content, policy=policy.default)
    assert [address.display_name for address in found["To"].addresses] == names


def test_the_default_sender_is_used_where_there_is_none() -> None:
    assert ours(make()).sender == "shop@b.example"


def test_file_names_are_made_ascii_where_flask_mail_would() -> None:
    message = make(attachments=[flask_mail.Attachment("Grüße  an\u00a0alle.pdf", None, b"x")])
    flask.current_app.extensions["mail"].ascii_attachments = True
    theirs = email.message_from_bytes(message.as_bytes())
    mail = email.message_from_bytes(ours(message, ascii_attachments=True).content)
    names = [list(found.walk())[-1].get_filename() for found in (mail, theirs)]
    assert names[0] == names[1] == "Grue an alle.pdf"


def test_a_bytearray_is_an_attachment_too() -> None:
    data: Any = bytearray(b"octets")
    mail = ours(make(attachments=[flask_mail.Attachment("a.bin", "application/x-own", data)]))
    assert tree(mail.content)[-1][2] == b"octets"


def test_a_lazy_text_is_resolved() -> None:
    class Lazy:
        def __str__(self) -> str:
            return "resolved"

    found = email.message_from_bytes(ours(make(subject=Lazy(), body=Lazy())).content)
    assert found["Subject"] == "resolved"
    assert found.get_payload(decode=True) == b"resolved\r\n"
