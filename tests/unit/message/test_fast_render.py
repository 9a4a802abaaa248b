"""The short way of a letter gives the octets that the long way gives, and refuses nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from email import charset
from typing import Any

import flask_mail
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import RenderedMessage
from outbox.domain.message.render import render as long_way
from outbox.flask_ext.messages import fast_path
from outbox.flask_ext.messages.convert import author, standard

pytestmark = pytest.mark.usefixtures("flask_mail_context")

LIMITS: dict[str, Any] = {"max_size": 5000, "split_size": 400}
MOMENT = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
Answer = RenderedMessage | str
"""An email, or the text of the refusal."""


def short(message: flask_mail.Message, send_at: datetime | None = None) -> RenderedMessage | None:
    return fast_path.render_fast(message, send_at=send_at, **LIMITS)


def long(message: flask_mail.Message, send_at: datetime | None = None) -> Answer:
    try:
        mail = long_way(standard(message), send_at=send_at, **LIMITS)
    except InvalidMessage as error:
        return str(error)
    return replace(
        mail,
        sender=author(message),
        mail_options=tuple(message.mail_options),
        rcpt_options=tuple(message.rcpt_options),
    )


def make(**fields: Any) -> flask_mail.Message:
    defaults: dict[str, Any] = {
        "subject": "Your order",
        "body": "Thank you.\n",
        "html": "<p>Thank you.</p>",
        "sender": "shop@b.example",
        "recipients": ["c@d.example"],
        "date": 1_777_896_000.0,
    }
    return flask_mail.Message(**defaults | fields)


ordinary = st.text("ab .,:;<>@=?\"\\-_()[]'\u00e4\u00df\u65e5", max_size=90)
lines = ordinary | ordinary | st.text("ab \t\r\n\0\x85\u2028\ud800=?", max_size=60)
texts = st.none() | st.text("ab.=-\r\n\u00df\u65e5", max_size=80) | lines
names = (
    ordinary
    | lines
    | st.sampled_from(["x" * 1200, "a\r\n b", "a\nBcc: b@c.example", "=?utf-8?q?a?="])
)
plain = st.from_regex(r"[a-z0-9.'+-]{1,9}@[a-z0-9-]{1,9}\.example", fullmatch=True)
addresses = plain | st.sampled_from(
    [
        "j\u00f6@b.example",
        "a@b\u00fccher.example",
        '"a b"@c.example',
        "a@[127.0.0.1]",
        "a@b.example\r\nBcc: x@y.example",
        "a@b.example, c@d.example",
        "Jo <a@b.example>",
        '"Doe, Jo" <a@b.example>',
        "=?utf-8?q?=3Cx=40y.example=3E?= <a@b.example>",
    ]
)
people = plain | st.tuples(ordinary, plain) | addresses | st.tuples(names, addresses)
crowds = st.lists(plain | st.tuples(ordinary, plain), max_size=9) | st.lists(people, max_size=4)
common = st.sampled_from(["X-Shop", "x-shop", "List-Id"])
others = st.sampled_from(["Sender", "Date", "X Y", "Subject", "Bcc", "Resent-To"])
headers = st.dictionaries(common, ordinary, max_size=2) | st.dictionaries(
    common | others, names, max_size=3
)
options = st.lists(st.sampled_from(["BODY=8BITMIME", "RET=HDRS"]), max_size=2)
messages = st.fixed_dictionaries(
    {},
    optional={
        "subject": names,
        "body": texts,
        "html": texts,
        "alts": st.dictionaries(st.sampled_from(["html", "amp", "\u00e4"]), texts, max_size=3),
        "sender": people,
        "recipients": crowds,
        "cc": crowds,
        "bcc": crowds,
        "reply_to": people,
        "charset": st.sampled_from(["utf-8", "utf-8", "utf-8", "iso-8859-1"]),
        "extra_headers": headers,
        "mail_options": options,
        "rcpt_options": options,
    },
)


@pytest.mark.long
@given(messages, st.sampled_from([None, MOMENT]))
def test_the_short_way_says_what_the_long_way_says_or_nothing(
    fields: dict[str, Any], send_at: datetime | None
) -> None:
    message = make(**fields)
    found = short(message, send_at)
    assert found is None or found == long(message, send_at)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"html": None},
        {"body": None},
        {"body": "", "html": "<p>Gr\u00fc\u00dfe</p>"},
        {"body": None, "html": ""},
        {"body": None, "html": "<p>x</p>", "alts": {"calendar": "BEGIN:VCALENDAR"}},
        {"body": None, "alts": {"calendar": "BEGIN:VCALENDAR"}},
        {"body": "Gr\u00fc\u00dfe, \U0001f600\r\n", "html": "<p>Gr\u00fc\u00dfe</p>"},
        {"body": ".\n\n.\r.", "html": ""},
        {"body": "ends in a CR\r", "html": "\r"},
        {"body": "ends in a CR\r", "html": None},
        {"alts": {"html": "<p>x</p>", "calendar": "BEGIN:VCALENDAR"}},
        {"subject": "a plain subject " * 10},
        {"subject": "Gr\u00fc\u00dfe an alle " * 9},
        {"sender": ("J\u00f6rg M\u00fcller", "a@b.example")},
        {"sender": ("Doe, Jo", "a@b.example")},
        {"sender": "Jo Doe <a@b.example>"},
        {"recipients": [f"reader-{number}@d.example" for number in range(20)]},
        {"cc": ["x@d.example", ("Y", "y@d.example")], "bcc": ["z@d.example", "x@d.example"]},
        {"reply_to": ("Desk", "r@d.example")},
        {"extra_headers": {"X-Shop": "1", "List-Unsubscribe": "<https://b.example/u>"}},
        {"mail_options": ["BODY=8BITMIME"], "rcpt_options": ["NOTIFY=NEVER"]},
        {"body": "large\n" * 300},
    ],
)
def test_an_ordinary_email_is_a_letter(fields: dict[str, Any]) -> None:
    message = make(**fields)
    assert isinstance(short(message), RenderedMessage)
    assert short(message) == long(message)
    assert short(message, MOMENT) == long(message, MOMENT)


def test_a_letter_without_a_date_gets_one_where_the_long_way_puts_it() -> None:
    message = make(date=None, reply_to="r@d.example")
    found, expected = short(message), long(message)
    assert isinstance(found, RenderedMessage)
    assert isinstance(expected, RenderedMessage)
    date = re.compile(rb"Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}\r\n")
    assert len(date.findall(found.headers + found.content)) == 1
    assert date.split(found.headers + found.content) == date.split(
        expected.headers + expected.content
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"attachments": [flask_mail.Attachment("a.txt", "text/plain", "a")]},
        {"body": "x" * 999},
        {"charset": "iso-8859-1"},
        {"extra_headers": {"Sender": "desk@b.example"}},
        {"extra_headers": {"Content-Language": "de"}},
        {"recipients": ["a@b\u00fccher.example", "\u00fc@b.example"]},
    ],
)
def test_what_is_no_letter_takes_the_long_way(fields: dict[str, Any]) -> None:
    message = make(**fields)
    assert short(message) is None
    assert isinstance(long(message), RenderedMessage)


def test_an_app_that_has_texts_encoded_takes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(charset.CHARSETS, "utf-8", (charset.QP, charset.QP, "utf-8"))
    message = make(body="Gr\u00fc\u00dfe")
    assert short(message) is None
    mail = long(message)
    assert isinstance(mail, RenderedMessage)
    assert b"quoted-printable" in mail.content
