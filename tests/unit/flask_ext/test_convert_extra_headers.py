"""An extra header outside of ASCII: its names are encoded, and never an address or identifier."""

from __future__ import annotations

import email
import re
from email import policy
from typing import Any

import flask_mail
import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.header import encoded_words
from outbox.domain.message.render import RenderedMessage, render
from outbox.flask_ext.messages import fast_path
from outbox.flask_ext.messages.convert import extra_value, standard

pytestmark = pytest.mark.usefixtures("flask_mail_context")

LIMITS: dict[str, Any] = {"max_size": 10**7, "split_size": 10**7}
SHORT = "Jörg Müller <joerg@shop.example>"
LONG = "Kundenbetreuung für Größen und Maße der Firma Müller <k@shop.example>"
SEVERAL = f'{SHORT}, "Lüdenscheidt, Anna" <anna@shop.example>, plain@shop.example'


def sent(name: str, value: str) -> RenderedMessage:
    headers = {name: value}
    message = flask_mail.Message(
        "s", ["c@d.example"], "b", sender="a@b.example", date=1.0, extra_headers=headers
    )
    mail = render(standard(message), send_at=None, **LIMITS)
    short = fast_path.render_fast(message, send_at=None, **LIMITS)
    assert short is None or short.content == mail.content
    return mail


def as_read(name: str, value: str) -> list[tuple[str, str]]:
    """Return what a reader sees, whatever the header's name: Python reads addresses of a few."""
    content = sent(name, value).content
    assert content.isascii()
    assert max(map(len, content.split(b"\r\n"))) <= 78
    raw = email.message_from_bytes(content, policy=policy.compat32)[name]
    found = policy.default.header_factory("Reply-To", raw.replace("\r\n", ""))
    return [(one.display_name, one.addr_spec) for one in found.addresses]


@pytest.mark.parametrize(
    "name",
    [
        *("Reply-To", "reply-to", "Resent-From", "Resent-Sender"),
        *("Errors-To", "Disposition-Notification-To", "Return-Receipt-To"),
    ],
)
def test_an_address_in_an_extra_header_stays_one(name: str) -> None:
    assert as_read(name, SHORT) == [("Jörg Müller", "joerg@shop.example")]
    assert as_read(name, LONG)[0][1] == "k@shop.example"
    assert as_read(name, SEVERAL) == [
        ("Jörg Müller", "joerg@shop.example"),
        ("Lüdenscheidt, Anna", "anna@shop.example"),
        ("", "plain@shop.example"),
    ]
    assert as_read(name, "a@bücher.example") == [("", "a@xn--bcher-kva.example")]


def test_a_sender_with_a_name_outside_of_ascii_is_taken() -> None:
    assert as_read("Sender", SHORT) == [("Jörg Müller", "joerg@shop.example")]


def test_an_address_outside_of_ascii_needs_smtputf8_or_is_refused() -> None:
    for name in ("Reply-To", "reply-to"):
        mail = sent(name, "Jörg <jörg@shop.example>")
        assert mail.smtputf8
        assert "jörg@shop.example".encode() in mail.content
    with pytest.raises(InvalidMessage, match="extra_headers: an address in Errors-To must be"):
        sent("Errors-To", "Jörg <jörg@shop.example>")


@pytest.mark.parametrize(
    "value", ["Jörg Müller", "Jörg <joerg>", "Jörg <a@b.example", "ö, " * 2000]
)
def test_what_names_no_address_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(InvalidMessage, match="extra_headers: Reply-To is"):
        sent("Reply-To", value)


@pytest.mark.parametrize(
    ("value", "phrase"),
    [
        ("Größen <news.shop.example>", "Größen"),
        ('"Größen, Maße" <news.shop.example>', "Größen, Maße"),
        ("Größen und Maße, alle Neuigkeiten des Monats <news.shop.example>", None),
    ],
)
def test_a_list_s_identifier_stays_as_it_is(value: str, phrase: str | None) -> None:
    content = sent("List-Id", value).content
    assert content.isascii()
    raw = email.message_from_bytes(content, policy=policy.compat32)["List-Id"]
    assert raw.endswith(" <news.shop.example>")
    shown = str(policy.default.header_factory("Subject", raw.replace("\r\n", "")))
    assert shown == f"{phrase or value.partition(' <')[0]} <news.shop.example>"


@pytest.mark.parametrize("end", ["<news.shop.example>", "<news.shop.example", "x<", "x"])
def test_a_list_s_long_name_is_read_once(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """A pattern over the whole value took seconds, as it tried each blank as the name's end."""
    read: list[str] = []

    class Noting:
        def fullmatch(self, text: str) -> re.Match[str] | None:
            read.append(text)
            return pattern.fullmatch(text)

    pattern = encoded_words._LIST_ID
    monkeypatch.setattr(encoded_words, "_LIST_ID", Noting())
    extra_value("List-Id", "ä" + " " * 30_000 + end)
    assert max(map(len, read), default=0) < 100


@pytest.mark.parametrize("value", ["Größen", "Größen <größen.shop.example>"])
def test_a_list_without_an_identifier_is_encoded_whole(value: str) -> None:
    message = email.message_from_bytes(sent("List-Id", value).content, policy=policy.default)
    assert message["List-Id"] == value
