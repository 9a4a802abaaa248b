"""The bytes of a message: structure, lines, boundaries, fingerprint; the user's object stays."""

from __future__ import annotations

import email
import re
from dataclasses import replace
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage, Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import RenderedMessage, render

LATER = datetime(2026, 5, 4, tzinfo=UTC)


def ready(message: Message[Any, Any], send_at: datetime | None = None) -> RenderedMessage:
    return render(message, send_at=send_at, max_size=10**7, split_size=10**7)


def read(mail: RenderedMessage) -> EmailMessage:
    found = email.message_from_bytes(mail.headers + mail.content, policy=policy.default)
    assert isinstance(found, EmailMessage)
    assert not found.defects
    return found


def octets(mail: RenderedMessage) -> bytes:
    return mail.headers + mail.content


def letter(text: str = "hello\n") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@b.example", "c@d.example", "hi"
    message.set_content(text)
    return message


def rich(text: str = "hello\n") -> EmailMessage:
    """Make text, HTML with an inline image, two attachments and a forwarded message."""
    message = letter(text)
    message.add_alternative('<p>hello</p><img src="cid:logo">', subtype="html")
    html = message.get_payload()[1]  # type: ignore[index]
    html.add_related(b"\x89PNG", "image", "png", cid="<logo>")  # type: ignore[union-attr]
    message.add_attachment("Grüße\n", filename="grüße.txt")
    message.add_attachment(b"\0\1\2" * 500, "application", "pdf", filename="a b.pdf")
    message.add_attachment(letter("inner\n"))
    return message


def legacy(text: str = "hello\n") -> Message[Any, Any]:
    message = MIMEMultipart("mixed")
    message["From"], message["To"] = "a@b.example", "c@d.example"
    inner = MIMEMultipart("alternative")
    inner.attach(MIMEText(text, "plain", "utf-8"))
    inner.attach(MIMEText(f"<p>{text}</p>", "html", "utf-8"))
    message.attach(inner)
    return message


def parsed(parser: policy.Policy[Any]) -> Message[Any, Any]:
    return email.message_from_bytes(rich().as_bytes(), policy=parser)


def test_everything_in_a_rich_message_arrives() -> None:
    message = rich()
    found = read(ready(message))
    text, html = found.get_body(("plain",)), found.get_body(("html",))
    assert text is not None
    assert text.get_content() == "hello\r\n"
    assert html is not None
    assert "cid:logo" in html.get_content()
    images = [part for part in found.walk() if part.get_content_type() == "image/png"]
    assert [(i["Content-ID"], i.get_payload(decode=True)) for i in images] == [
        ("<logo>", b"\x89PNG")
    ]
    one, two, three = found.iter_attachments()
    assert (one.get_filename(), one.get_content()) == ("grüße.txt", "Grüße\r\n")
    assert (two.get_filename(), two.get_content()) == ("a b.pdf", b"\0\1\2" * 500)
    assert three.get_content_type() == "message/rfc822"
    assert three.get_content().get_content() == "inner\r\n"
    assert [p.get_content_type() for p in found.walk()] == [
        p.get_content_type() for p in message.walk()
    ]


@pytest.mark.parametrize("parser", [policy.compat32, policy.default, policy.SMTP], ids=repr)
def test_a_message_parsed_from_bytes_goes_out_as_it_came(parser: policy.Policy[Any]) -> None:
    message = parsed(parser)
    found = read(ready(message))
    given = email.message_from_bytes(rich().as_bytes(policy=policy.SMTP), policy=policy.default)
    assert [
        (p.get_content_type(), p.get_filename(), p.is_multipart() or p.get_payload(decode=True))
        for p in found.walk()
    ] == [
        (p.get_content_type(), p.get_filename(), p.is_multipart() or p.get_payload(decode=True))
        for p in given.walk()
    ]
    kept = ["From", "To", "Subject", "MIME-Version"]
    assert [found[name] for name in kept] == [str(message[name]) for name in kept]
    assert re.findall(rb'boundary="([^"]+)"', ready(message).content) == re.findall(
        rb'boundary="([^"]+)"', message.as_bytes()
    )


@pytest.mark.parametrize("make", [rich, legacy, letter])
def test_the_user_s_message_is_as_before(make: Any) -> None:
    message = make()
    message["Bcc"] = "secret@x.example"

    def look() -> list[Any]:
        return [(id(part), part.items(), part.get_boundary()) for part in message.walk()]

    before = look()
    ready(message, LATER)
    assert look() == before
    assert message["Bcc"] == "secret@x.example"
    assert message["Date"] is message["Message-ID"] is None


def test_the_user_s_message_keeps_its_long_lines_and_its_domain() -> None:
    message = Message()
    message["From"], message["To"] = "a@b.example", "c@bücher.example"
    message.set_payload("x" * 2000)
    ready(message)
    assert message["To"] == "c@bücher.example"
    assert message.get_payload() == "x" * 2000
    assert message["Content-Transfer-Encoding"] is None


@pytest.mark.parametrize("make", [rich, legacy, letter])
def test_the_same_message_made_twice_has_one_fingerprint_and_one_body(make: Any) -> None:
    one, two = ready(make()), ready(make(), LATER)
    assert one.message_id != two.message_id
    assert one.content != two.content  # Date and Message-ID
    assert one.content.partition(b"\r\n\r\n")[2] == two.content.partition(b"\r\n\r\n")[2]
    assert one.fingerprint() == two.fingerprint()


@pytest.mark.parametrize("make", [rich, legacy, letter])
def test_another_content_has_another_fingerprint(make: Any) -> None:
    assert ready(make()).fingerprint() != ready(make("other\n")).fingerprint()


@pytest.mark.parametrize("name", ["To", "From", "Subject", "Cc", "Bcc", "Reply-To", "X-Own"])
def test_another_header_or_recipient_has_another_fingerprint(name: str) -> None:
    other = letter()
    del other[name]
    other[name] = "other@x.example"
    assert ready(letter()).fingerprint() != ready(other).fingerprint()


def test_a_fingerprint_tells_mail_options_from_recipient_options() -> None:
    mail = ready(letter())
    variants = [
        replace(mail, mail_options=("A", "B")),
        replace(mail, mail_options=("A",), rcpt_options=("B",)),
        replace(mail, rcpt_options=("A", "B")),
        mail,
    ]
    assert len({variant.fingerprint() for variant in variants}) == 4


def test_a_fingerprint_is_the_same_whether_the_headers_are_apart_or_not() -> None:
    message = letter()
    message["Message-ID"], message["Date"] = "<a@b>", "Mon, 01 Jan 2024 00:00:00 +0000"
    apart = render(message, send_at=None, max_size=10**6, split_size=1)
    assert apart.fingerprint() == ready(message).fingerprint()


def test_a_fingerprint_is_blind_to_date_and_message_id_in_the_header_only() -> None:
    assert ready(letter("Date: one\n")).fingerprint() != ready(letter("Date: two\n")).fingerprint()


def test_boundaries_are_made_from_the_contents_and_differ_within_a_message() -> None:
    found = [part.get_boundary() for part in read(ready(rich())).walk() if part.is_multipart()]
    made = [boundary for boundary in found if boundary]
    assert len(made) == len(set(made)) == 3
    assert all(re.fullmatch(r"=_[0-9a-f]{40}_\d", boundary) for boundary in made)


def test_an_author_cannot_put_a_boundary_in_the_text() -> None:
    boundary = read(ready(rich())).get_boundary()
    found = read(ready(rich(f"--{boundary}\nContent-Type: text/html\n\nevil\n")))
    assert found.get_boundary() != boundary
    assert [p.get_content_type() for p in found.walk()] == [
        p.get_content_type() for p in rich().walk()
    ]


def test_an_empty_boundary_is_replaced_by_a_repeatable_one() -> None:
    emails = []
    for _ in range(2):
        message = legacy()
        message.set_param("boundary", "")
        emails.append(ready(message))
    assert emails[0].fingerprint() == emails[1].fingerprint()


@pytest.mark.parametrize("text", ["", "\n", ".", ".\n..\n", "\n\n.\n", "no end"])
def test_a_text_arrives_with_crlf_line_ends(text: str) -> None:
    mail = ready(letter(text))
    body = mail.content.partition(b"\r\n\r\n")[2]
    assert body.decode().splitlines() == (text.splitlines() or [""])
    assert not re.search(rb"(?<!\r)\n", mail.content)


def test_a_message_without_any_body_is_headers_and_an_empty_line() -> None:
    message = EmailMessage()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    mail = ready(message)
    assert mail.content.endswith(b"\r\n\r\n")
    assert mail.content.count(b"\r\n\r\n") == 1


@pytest.mark.parametrize("kind", ["plain", "html"])
@pytest.mark.parametrize("text", ["x" * 3000, "x" * 998, "short\n" + "y " * 900 + "\nend\n"])
def test_a_line_over_998_octets_is_encoded_and_arrives_as_it_was(kind: str, text: str) -> None:
    message = MIMEText(text, kind, "us-ascii")
    message["From"], message["To"] = "a@b.example", "c@d.example"
    mail = ready(message)
    assert max(map(len, mail.content.split(b"\r\n"))) <= 998
    decoded = email.message_from_bytes(mail.content).get_payload(decode=True)
    assert isinstance(decoded, bytes)
    assert decoded.replace(b"\r\n", b"\n").rstrip(b"\n") == text.rstrip("\n").encode()


def test_a_long_line_in_one_part_changes_no_other_part() -> None:
    message = legacy("x" * 2000)
    message.attach(MIMEText("short", "plain", "us-ascii"))
    found = read(ready(message))
    encodings = [part["Content-Transfer-Encoding"] for part in found.walk()][2:]
    assert encodings == ["quoted-printable", "quoted-printable", "7bit"]


def test_a_long_line_that_cannot_be_encoded_is_refused() -> None:
    message = legacy()
    message.preamble = "x" * 1000
    with pytest.raises(InvalidMessage, match="998 octets") as caught:
        ready(message)
    assert caught.value.field == "message"
    message = MIMEText("x")
    message["From"], message["To"], message["X-Own"] = "a@b.example", "c@d.example", "y" * 1200
    with pytest.raises(InvalidMessage, match="998 octets"):
        ready(message)


def test_a_long_subject_is_folded_and_arrives() -> None:
    subject = "wörd " * 100
    message = letter()
    message.replace_header("Subject", subject)
    assert read(ready(message))["Subject"].split() == subject.split()


@pytest.mark.parametrize("payload", [b"octets", 5, object])
def test_a_payload_that_cannot_be_written_is_refused(payload: Any) -> None:
    message = Message()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    message.__dict__["_payload"] = payload
    with pytest.raises(InvalidMessage, match="cannot be read or written"):
        ready(message)


def test_multiparts_nested_without_end_are_refused() -> None:
    message = MIMEText("core")
    for _ in range(2000):
        outer = MIMEMultipart()
        outer.attach(message)
        message = outer  # type: ignore[assignment]
    message["From"], message["To"] = "a@b.example", "c@d.example"
    with pytest.raises(InvalidMessage):
        ready(message)


def test_a_from_at_the_start_of_a_line_stays_as_it_is() -> None:
    assert ready(letter("From me\n")).content.endswith(b"\r\n\r\nFrom me\r\n")


@pytest.mark.parametrize("version", ["", "MIME-Version: 1.0\n"])
def test_a_message_that_is_encoded_here_says_once_that_it_is_mime(version: str) -> None:
    """Without that a receiver need not decode it (RFC 2045 §4)."""
    head = f"From: a@b.example\nTo: c@d.example\n{version}"
    long = email.message_from_string(f"{head}\n{'ab ' * 400}\n")
    assert octets(ready(long)).count(b"MIME-Version: 1.0") == 1
    short = email.message_from_string(f"{head}\nab\n")
    assert octets(ready(short)).count(b"MIME-Version") == bool(version), "what is not encoded stays"
