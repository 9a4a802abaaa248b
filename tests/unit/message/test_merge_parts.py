"""Which parts of a message are filled in, how values are escaped there, and what is refused."""

from __future__ import annotations

import email
from email import policy
from email.message import EmailMessage, Message
from typing import Any

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.merge_fields import refuse_unfilled
from outbox.domain.mime.serialize import folded
from tests.unit.message.test_merge import merge_of, newsletter, received, shown

HOSTILE = '<script>&"Zo\u00eb'


@pytest.mark.parametrize("subtype", ["html", "xhtml+xml", "x-amp-html", "xml", "HTML"])
def test_in_every_kind_of_markup_a_value_is_escaped(subtype: str) -> None:
    message = newsletter("Hello {{ name }}\n")
    message.add_alternative("<p>{{ name }}</p>\n", subtype=subtype)
    text, markup = received(message, {"name": HOSTILE}).iter_parts()
    assert shown(text) == f"Hello {HOSTILE}\n"
    octets = markup.get_payload(decode=True).decode()
    assert octets.strip() == "<p>&lt;script&gt;&amp;&quot;Zo\u00eb</p>"


@pytest.mark.parametrize("subtype", ["calendar", "css", "markdown"])
def test_in_a_text_of_another_kind_a_field_is_refused(subtype: str) -> None:
    message = newsletter("Hello {{ name }}\n")
    message.add_alternative("SUMMARY: {{ name }}\n", subtype=subtype)
    with pytest.raises(InvalidMessage, match=f"not in text/{subtype}"):
        merge_of(message, {"name": "Ada"})


def test_such_a_text_stays_as_it_is_where_it_has_no_field() -> None:
    message = newsletter("Hello {{ name }}\n")
    message.add_alternative("a { color: red }\n", subtype="css")
    _, css = received(message, {"name": "Ada"}).iter_parts()
    assert css.get_payload(decode=True) == b"a { color: red }\r\n"


def attached(**headers: str) -> EmailMessage:
    inner = EmailMessage()
    inner["Subject"] = "About {{ name }}"
    inner.set_content("Dear {{ name }} {{ and others\n")
    for name, value in headers.items():
        inner[name.replace("_", "-")] = value
    message = newsletter("Hello {{ name }}\n")
    message.add_attachment(inner)
    return message


@pytest.mark.parametrize("headers", [{}, {"DKIM_Signature": "v=1; a=rsa-sha256; b=x"}])
def test_a_message_that_is_attached_stays_as_it_is(headers: dict[str, str]) -> None:
    found = received(attached(**headers), {"name": "Ada"})
    text, inner = found.iter_parts()
    assert shown(text) == "Hello Ada\n"
    assert inner.get_content()["Subject"] == "About {{ name }}"
    assert shown(inner.get_content()) == "Dear {{ name }} {{ and others\n"


def test_what_is_signed_and_shown_is_refused() -> None:
    message = newsletter("Hello {{ name }}\n")
    message["DKIM-Signature"] = "v=1; a=rsa-sha256; b=x"
    with pytest.raises(InvalidMessage, match="a signed message cannot be filled in"):
        merge_of(message, {"name": "Ada"})


@pytest.mark.parametrize("value", ["w" * 1200, "\u00fc" * 300])
def test_a_subject_that_is_filled_in_has_no_line_that_is_too_long(value: str) -> None:
    message = newsletter("Hello\n", subject="For {{ name }}")
    if value.isascii():
        with pytest.raises(InvalidMessage, match="subject: has a line over 998 octets"):
            received(message, {"name": value})
    else:
        assert received(message, {"name": value})["Subject"] == f"For {value}"


def test_two_subjects_are_refused() -> None:
    raw = b"From: a@x.example\nSubject: One {{ n }}\nSubject: Two {{ n }}\n\nHello {{ n }}\n"
    message: Any = email.message_from_bytes(raw, policy=policy.compat32)
    with pytest.raises(InvalidMessage, match="subject: the message has two"):
        merge_of(message, {"n": "Ada"})


@pytest.mark.parametrize("made", [policy.compat32, policy.default])
def test_a_subject_of_raw_octets_is_refused(made: Any) -> None:
    raw = b"From: a@x.example\nSubject: Gr\xfc\xdfe {{ n }}\n\nHello {{ n }}\n"
    with pytest.raises(InvalidMessage, match="subject: has octets of no known charset"):
        merge_of(email.message_from_bytes(raw, policy=made), {"n": "Ada"})


def test_what_is_filled_in_is_not_larger_than_a_message_may_be() -> None:
    _, merge = merge_of(newsletter("{{ n }}\n" * 101), {"n": "x" * 10_000})
    with pytest.raises(InvalidMessage, match="OUTBOX_MAX_SIZE allows 1000000"):
        merge.of("a@x.example")


def unfilled(message: Message[Any, Any]) -> str:
    """Return the place that is named where nobody fills the message in, or "" if it is taken."""
    try:
        refuse_unfilled(message)
    except InvalidMessage as error:
        return error.rule.partition(" in ")[2].partition(":")[0]
    return ""


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (newsletter("Hello\n"), ""),
        (newsletter("Hello\nDear {{ name }}\n"), "line 2 of text/plain"),
        (newsletter("Hello\nDear {{name}},\n"), "line 2 of text/plain"),
        (newsletter("Hello\n", html="<p>{{ name }}</p>\n"), "line 1 of text/html"),
        (newsletter("Hello\n", subject="For {{ name }}"), "the header Subject"),
        (newsletter("Hello\n", subject="F\u00fcr {{ name }}"), "the header Subject"),
        (newsletter("{{ 7*7 }} {{ user.name }} {{\n"), ""),
        (attached(), "line 1 of text/plain"),
    ],
)
def test_the_place_of_a_field_that_nobody_fills_in_is_named(
    message: EmailMessage, place: str
) -> None:
    assert unfilled(message) == place


def test_what_is_attached_may_have_fields() -> None:
    message = attached()
    [text, _] = message.iter_parts()
    text.set_content("Hello\n")
    message.add_attachment("{{ name }}", filename="template.txt")
    assert unfilled(message) == ""


def test_a_text_that_cannot_be_read_is_passed_over() -> None:
    message = newsletter("Hello\n")
    message.add_alternative("<p>{{ name }}</p>\n", subtype="html")
    _, markup = message.iter_parts()
    markup.set_param("charset", "x-nobody-knows")
    assert unfilled(message) == ""


@pytest.mark.parametrize("length", range(60, 121))
def test_a_folded_subject_is_read_as_one_line(length: int) -> None:
    """Flask-Mail's path folds a long one, and a fold may stand within a field."""
    text = "x " * (length // 2 - 7) + "{{ name }} end"
    made = newsletter("hi\n")
    del made["Subject"]
    made._headers.append(("Subject", folded("Subject", text)))  # type: ignore[attr-defined]
    assert merge_of(made, {"name": "Ada"})[1].subject_shown == text
    with pytest.raises(InvalidMessage, match="the header Subject"):
        refuse_unfilled(made)


def test_a_message_that_is_encoded_for_its_fields_says_that_it_is_mime() -> None:
    made = email.message_from_string("From: a@b.example\nSubject: hi\n\nDear {{ name }}\n")
    octets, merge = merge_of(made, {"name": "Jörg"})
    assert octets.count(b"MIME-Version: 1.0") == 1
    _, content, _ = merge.of("a@x.example")
    assert email.message_from_bytes(content).get_payload(decode=True) == "Dear Jörg\r\n".encode()
