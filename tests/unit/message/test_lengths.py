"""What is too long is refused before anything reads or writes it: CPython would take minutes."""

from __future__ import annotations

import email
from collections.abc import Callable, Iterator
from email import policy
from email.header import Header
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage, Message
from typing import Any

import flask
import flask_mail
import idna
import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.header import fields as headers
from outbox.domain.message.personalize import individuals
from outbox.domain.message.render import render
from outbox.domain.mime.serialize import folded
from outbox.flask_ext.messages.convert import standard

LONG = 64_000
MOST = headers.MAX_HEADER
FAST = 4_000
"""Characters of an address, or of a list of them, that may be read."""

POLICIES = {"compat32": policy.compat32, "default": policy.default}
UNITS = ["a", "ü", "a ", '"', "a;b=", "<a@b>,", ",", "a,", "("]


@pytest.fixture(autouse=True)
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Note the length of whatever is handed to what takes more than a look."""
    lengths: list[int] = []

    def noted(work: Callable[..., Any], place: int) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            lengths.append(len(str(args[place])))
            return work(*args, **options)

        return call

    monkeypatch.setattr(idna, "encode", noted(idna.encode, 0))
    monkeypatch.setattr(HeaderRegistry, "__call__", noted(HeaderRegistry.__call__, 2))
    monkeypatch.setattr("outbox.domain.header.encoded_words.Header", noted(Header, 0))
    monkeypatch.setattr("outbox.flask_ext.messages.convert.folded", noted(folded, 1))
    app = flask.Flask("test")
    flask_mail.Mail(app)
    with app.app_context():
        yield lengths


def refused(message: Message[Any, Any]) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        render(message, send_at=None, max_size=10**8, split_size=10**8)
    return caught.value


def flask_message(**fields: Any) -> flask_mail.Message:
    given = {"subject": "s", "body": "b", "sender": "a@b.example", "recipients": ["c@d.example"]}
    return flask_mail.Message(**given | fields)


FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "subject": lambda text: {"subject": text},
    "sender": lambda text: {"sender": text},
    "sender's name": lambda text: {"sender": (text, "a@b.example")},
    "recipient": lambda text: {"recipients": [text]},
    "recipient's name": lambda text: {"recipients": [(text, "c@d.example")]},
    "recipient's local part": lambda text: {"recipients": [f"{text}@d.example"]},
    "recipient's domain": lambda text: {"recipients": [f"c@{text}.example"]},
    "cc's domain": lambda text: {"cc": [("C", f"c@{text}.example")]},
    "reply_to": lambda text: {"reply_to": text},
    "extra header": lambda text: {"extra_headers": {"X-Own": text}},
}


@pytest.mark.matrix
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("field", FIELDS)
def test_a_long_field_of_a_flask_message_is_refused_at_a_look(
    read: list[int], field: str, unit: str
) -> None:
    message = flask_message(**FIELDS[field](unit * (LONG // len(unit))))
    with pytest.raises(InvalidMessage):
        standard(message)
    assert max(read, default=0) <= 1_000


def test_a_name_with_many_commas_is_as_long_as_it_is(read: list[int]) -> None:
    with pytest.raises(InvalidMessage, match="998"):
        standard(flask_message(sender=("a," * 500, "a@b.example")))


@pytest.mark.matrix
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("name", ["From", "Sender", "Reply-To", "Resent-From"])
def test_a_long_author_is_refused_at_a_look(
    read: list[int], name: str, kind: str, unit: str
) -> None:
    value = unit * (LONG // len(unit))
    raw = f"From: a@b.example\nTo: c@d.example\n{name}: {value}\n\nhi\n".encode()
    message = email.message_from_bytes(raw, policy=POLICIES[kind])
    if name == "From":
        del message["From"]
        message._headers.append((name, value))  # type: ignore[attr-defined]  # not parsed yet
    assert refused(message).field in (name, name.lower())
    assert max(read, default=0) <= FAST


@pytest.mark.matrix
@pytest.mark.parametrize("unit", [",", "a,", " ,", ";,"])
@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("name", ["To", "Cc", "Bcc"])
def test_a_list_of_nothing_but_commas_is_refused_at_a_look(
    read: list[int], name: str, kind: str, unit: str
) -> None:
    raw = f"From: a@b.example\n{name}: {unit * 8_000}\n\nhi\n".encode()
    error = refused(email.message_from_bytes(raw, policy=POLICIES[kind]))
    assert (error.field, error.rule) == (name.lower(), headers.NO_LIST)
    assert max(read, default=0) <= FAST


@pytest.mark.parametrize("value", ["a;b=" * 4_000, '"' * 4_001, "<a@b>," * 1_000])
def test_a_header_that_a_policy_has_parsed_is_as_long_as_it_was_given(value: str) -> None:
    """Its text is what the parser understood of it, two characters of thousands of quotes."""
    message = EmailMessage()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    message["Reply-To"] = value
    message.set_content("hi")
    assert refused(message).field == "reply-to"


@pytest.mark.parametrize("unit", ["a", "ü", ","])
def test_a_long_name_of_a_reader_is_refused_at_a_look(read: list[int], unit: str) -> None:
    readers = [(unit * LONG, "a@b.example")]
    with pytest.raises(InvalidMessage, match="998"):
        list(
            individuals(readers, iter(["<1@b>"]), sender="a@b.example", content=b"", smtputf8=False)
        )
    assert not read


@pytest.mark.long
def test_a_list_of_recipients_may_be_as_long_as_it_likes() -> None:
    names = ", ".join(f'"Doe, J., {number}" <r{number}@d.example>' for number in range(1_000))
    raw = f"From: a@b.example\nTo: {names}\n\nhi\n".encode()
    mail = render(email.message_from_bytes(raw), send_at=None, max_size=10**8, split_size=10**8)
    assert len(mail.recipients) == 1_000


@pytest.mark.parametrize("name", ["recipients", "cc", "bcc"])
def test_too_many_recipients_of_a_flask_message_are_refused_at_a_look(
    read: list[int], name: str
) -> None:
    people = [f"r{number}@d.example" for number in range(10_001)]
    with pytest.raises(InvalidMessage, match="more than 10000; use enqueue_many"):
        standard(flask_message(**{name: people}))
    assert max(read, default=0) <= FAST


@pytest.mark.long
@pytest.mark.parametrize("kind", POLICIES)
def test_many_headers_with_encoded_words_are_refused_at_a_look(read: list[int], kind: str) -> None:
    field = f"X-Own: {'a =? ' * 6_000}\n"
    raw = f"From: a@b.example\nTo: c@d.example\n{field * 3}\nhi\n".encode()
    message = email.message_from_bytes(raw, policy=POLICIES[kind])
    assert "65536 characters" in refused(message).rule
    assert sum(length for length in read if length > FAST) <= headers.MAX_ENCODED
