"""A template is filled in so that any reader of email sees each value as it was given."""

from __future__ import annotations

import email
from email import policy
from email.header import Header
from email.message import EmailMessage, Message
from email.mime.text import MIMEText
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.merge_fields import Draft, Merge
from outbox.domain.message.merge_template import Template, merged
from outbox.domain.message.render import render_shared

VALUES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029"), max_size=200
)


def newsletter(text: str, *, html: str = "", subject: str = "News") -> EmailMessage:
    made = EmailMessage()
    made["From"] = "shop@shop.example"
    made["Subject"] = subject
    made.set_content(text)
    if html:
        made.add_alternative(html, subtype="html")
    return made


def merge_of(message: Message[Any, Any], fields: Any) -> tuple[bytes, Merge]:
    draft = Draft.of(message)
    _, octets, _ = render_shared(draft.message, send_at=None, max_size=10**6)
    of_reader = fields if callable(fields) else lambda _: fields
    return draft.finish(octets, of_reader, max_size=10**6)


def shown(part: Any) -> str:
    text: str = part.get_content()
    return text.replace("\r\n", "\n")


def received(message: EmailMessage, fields: dict[str, object]) -> Any:
    """Return the message as a reader's program parses it."""
    _, merge = merge_of(message, fields)
    headers, content, _ = merge.of("a@x.example")
    assert (headers + content).isascii()
    assert max(map(len, (headers + content).split(b"\r\n"))) <= 998
    return email.message_from_bytes(headers + content, policy=policy.default)


@given(VALUES, VALUES)
def test_a_reader_sees_the_values_in_every_text_and_in_the_subject(name: str, town: str) -> None:
    message = newsletter(
        "Hello {{ name }},\n\nGrüße nach {{town}}. {{ name }}!\n",
        html='<p title="{{ name }}">Hello {{ name }}</p>\n',
        subject="For {{ name }}",
    )
    found = received(message, {"name": name, "town": town})
    text, html = found.get_body(("plain",)), found.get_body(("html",))
    assert shown(text) == f"Hello {name},\n\nGrüße nach {town}. {name}!\n"
    assert "<" not in shown(html).replace("<p", "").replace("</p>", "")
    assert shown(html).count('"') == 2
    assert str(found["Subject"]).split() == f"For {name}".split()


@given(VALUES)
def test_a_line_break_in_a_value_is_one_in_a_text(value: str) -> None:
    found = received(newsletter("To:\n{{ a }}\nBye.\n"), {"a": f"{value}\r\n.\nx"})
    assert shown(found) == f"To:\n{value}\n.\nx\nBye.\n"


def test_the_octets_follow_from_the_template_and_the_stored_values() -> None:
    octets, merge = merge_of(newsletter("{{ b }} and {{ a }}\n"), {"a": "x", "b": 7, "c": "unused"})
    _, content, stored = merge.of("a@x.example")
    assert stored == '["7", "x"]'
    assert merged(Template(octets), stored) == content
    assert b"7 and x\r\n" in content


def test_a_subject_alone_may_have_fields() -> None:
    _, merge = merge_of(newsletter("Hello.\n", subject="Hello {{ name }}"), {"name": "Zoë"})
    headers, content, stored = merge.of("a@x.example")
    found = email.message_from_bytes(headers, policy=policy.default)
    assert (headers.isascii(), found["Subject"]) == (True, "Hello Zoë")
    assert b"Subject" not in content
    assert stored == "[]"


@pytest.mark.parametrize(
    "value", ["=?utf-8?q?b?=", "é" * 200, "x" * 300, "日本語" * 50, "🎉 " * 40]
)
def test_a_long_or_odd_subject_is_read_as_it_was_given(value: str) -> None:
    _, merge = merge_of(newsletter("x\n", subject="For {{ a }}!"), {"a": value})
    headers, _, _ = merge.of("a@x.example")
    found = email.message_from_bytes(headers, policy=policy.default)
    assert found["Subject"] == f"For {value}!"
    if len(value) != 300:
        assert max(map(len, headers.splitlines())) <= 78


@pytest.mark.parametrize("subject", ["Grüße {{ name }}", "ü" * 90 + " {{ name }}"])
def test_a_field_in_a_subject_that_is_encoded_is_found(subject: str) -> None:
    message = MIMEText("Hello.\n")  # as Flask-Mail makes one
    message["From"] = "shop@shop.example"
    message["Subject"] = Header(subject, "utf-8").encode()
    for made in (message, email.message_from_bytes(message.as_bytes())):
        _, merge = merge_of(made, {"name": "Zoë"})
        headers, _, _ = merge.of("a@x.example")
        found = email.message_from_bytes(headers, policy=policy.default)
        assert found["Subject"] == subject.replace("{{ name }}", "Zoë")


def test_a_subject_that_cannot_be_read_is_refused() -> None:
    message = MIMEText("{{ name }}\n")
    message["Subject"] = "=?nonsense?b?w7w=?="
    with pytest.raises(InvalidMessage, match="cannot be read"):
        Draft.of(message)


@pytest.mark.parametrize(
    "value", ["{{ name }} <shop@shop.example>", "=?utf-8?q?=7B=7Bname=7D=7D?="]
)
def test_a_field_in_another_header_is_refused_and_not_sent_as_it_stands(value: str) -> None:
    message = MIMEText("{{ name }}\n")
    message["Subject"], message["X-Reader"] = "News", value
    with pytest.raises(InvalidMessage, match="X-Reader"):
        Draft.of(message)


def test_what_is_common_is_the_same_as_without_fields() -> None:
    message = newsletter("Hello {{ name }}.\n", html="<p>Hello</p>\n")
    message.add_attachment(b"{{ name }}", maintype="text", subtype="plain", filename="a.txt")
    found = received(message, {"name": "Ada"})
    html, [attached] = found.get_body(("html",)), list(found.iter_attachments())
    assert shown(html) == "<p>Hello</p>\n"
    assert shown(attached) == "{{ name }}"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "name is missing"),
        ({"name": None}, "name is missing"),
        ({"name": 1.5}, "whole number"),
        ({"name": True}, "whole number"),
        ({"name": b"Ada"}, "whole number"),
        ({"name": "a\0b"}, "control"),
        ({"name": "a\x1bb"}, "control"),
        ({"name": "\ud800"}, "control"),
        ({"name": "x" * 16_000}, "16000 characters"),
        ("Ada", "mapping"),
    ],
)
def test_a_value_that_is_missing_or_none_is_refused(fields: Any, words: str) -> None:
    _, merge = merge_of(newsletter("Hello {{ name }}.\n"), lambda _: fields)
    with pytest.raises(InvalidMessage, match=words) as caught:
        merge.of("a@x.example")
    assert caught.value.field == "fields"


def test_a_line_break_cannot_come_into_the_subject() -> None:
    _, merge = merge_of(newsletter("x\n", subject="For {{ a }}"), {"a": "x\r\nBcc: b@x.example"})
    with pytest.raises(InvalidMessage, match="line breaks"):
        merge.of("a@x.example")


@pytest.mark.parametrize(
    "text", ["{{ na me }}", "{{ name | upper }}", "{{ name", "{{\nname }}", "{{ größe }}", "{{}}"]
)
def test_what_is_no_field_is_refused_and_not_sent_as_it_stands(text: str) -> None:
    with pytest.raises(InvalidMessage, match="a field is"):
        merge_of(newsletter(f"Hello {text}\n"), {})
    with pytest.raises(InvalidMessage, match="a field is"):
        merge_of(newsletter("{{ a }}", subject=text.replace("\n", " ") + "{{"), {"a": "x"})


@pytest.mark.parametrize("text", ["Hi {{ a }}\0!\n", "\0{{ a }}\n", "x\n{{ a }} {{ b }}\0\0\ny\n"])
def test_a_line_with_a_field_has_no_nul(text: str) -> None:
    """The template's own NULs would be taken for others, and readers would get other lines."""
    for message in (newsletter(text), newsletter("{{ a }}\n", html=f"<p>{text}</p>\n")):
        with pytest.raises(InvalidMessage, match="a line with a NUL"):
            merge_of(message, {"a": "x", "b": "y"})


def test_a_line_without_a_field_may_have_a_nul() -> None:
    assert shown(received(newsletter("{{ a }}\n\0!\n"), {"a": "x"})) == "x\n\0!\n"


def test_a_message_without_fields_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="has none"):
        merge_of(newsletter("Hello { name }\n", html="<style>@media x{a{b:c}}</style>"), {})


def test_a_signed_message_is_refused() -> None:
    message = EmailMessage()
    message["From"] = "shop@shop.example"
    message["Content-Type"] = "multipart/signed"
    message.set_payload([newsletter("{{ a }}")])
    with pytest.raises(InvalidMessage, match="signed"):
        Draft.of(message)


@pytest.mark.parametrize("stored", ["", "{}", '["a"]', '["a", "b", "c"]', "[1, 2]", '["a", null]'])
def test_stored_values_that_do_not_fit_are_an_error(stored: str) -> None:
    octets, _ = merge_of(newsletter("{{ a }} {{ b }}"), {})
    with pytest.raises(ValueError, match=r"."):
        merged(Template(octets), stored)
