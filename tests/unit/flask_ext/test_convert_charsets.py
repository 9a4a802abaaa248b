"""A text that is attached is written in the charset that its type names."""

from __future__ import annotations

import email
from email import policy
from email.message import EmailMessage

import flask_mail
import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import render
from outbox.flask_ext.messages.convert import standard

pytestmark = pytest.mark.usefixtures("flask_mail_context")


def attached(kind: str, data: str | bytes) -> EmailMessage:
    made = flask_mail.Message("s", ["c@d.example"], "See below.\n", sender="a@b.example")
    made.attach("a.csv", kind, data)
    octets = render(standard(made), send_at=None, max_size=10**6, split_size=10**6).content
    whole = email.message_from_bytes(octets, policy=policy.default)
    (part,) = whole.iter_attachments()
    assert isinstance(part, EmailMessage)
    return part


def octets(part: EmailMessage) -> bytes:
    found = part.get_payload(decode=True)
    assert isinstance(found, bytes)
    return found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("text/csv; charset=iso-8859-1", "Müller\n"),
        ('text/csv; header=present; charset="windows-1252"', "5 €\n"),
        ("text/plain; charset=utf-16", "Größe\n"),
        ("text/plain; charset=UTF-8", "Größe\n"),
        ("text/calendar; method=REQUEST; charset=utf-8", "ü\n"),
        ("application/xml; charset=iso-8859-1", "<a>Müller</a>\n"),
        ("text/plain; Charset*=us-ascii'en'iso-8859-15", "5 €\n"),
    ],
)
def test_a_text_is_written_in_the_charset_of_its_type(kind: str, text: str) -> None:
    part = attached(kind, text)
    charset = part.get_content_charset()
    assert charset == email.message_from_string(f"Content-Type: {kind}\n\n").get_content_charset()
    assert octets(part).decode(str(charset)) == text


@pytest.mark.parametrize(
    ("charset", "text"), [("iso-8859-1", "5 €"), ("us-ascii", "Größe"), ("no-such", "Größe")]
)
def test_a_charset_without_the_text_s_letters_gives_way_to_utf_8(charset: str, text: str) -> None:
    part = attached(f"text/csv; header=present; charset={charset}", text)
    assert (part.get_content_charset(), octets(part)) == ("utf-8", text.encode())
    assert (part.get_content_type(), part.get_param("header")) == ("text/csv", "present")
    assert part.get_filename() == "a.csv"


def test_octets_stay_as_they_are() -> None:
    part = attached("text/csv; charset=iso-8859-1", "5 €".encode())
    assert (part.get_content_charset(), octets(part)) == ("iso-8859-1", "5 €".encode())


def test_a_codec_for_host_names_is_refused_as_ever() -> None:
    with pytest.raises(InvalidMessage, match="no charsets"):
        attached("text/csv; charset=punycode", "Größe")


def test_a_type_of_a_hundred_thousand_characters_is_not_read() -> None:
    with pytest.raises(InvalidMessage, match="has more than"):
        attached("text/csv; charset=" + '";' * 50_000, "Größe")


def test_a_text_with_a_lone_surrogate_is_refused() -> None:
    for charset in ("utf-8", "iso-8859-1", "utf-16"):
        with pytest.raises(InvalidMessage, match="lone surrogates"):
            attached(f"text/plain; charset={charset}", "\ud800")
