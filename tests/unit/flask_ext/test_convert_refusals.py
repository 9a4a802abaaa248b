"""Bad input in a `flask_mail.Message` is refused with the field and the rule."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

import flask_mail
import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import render
from outbox.flask_ext.messages.convert import standard
from outbox.flask_ext.messages.size_guard import refuse_heavy

CONTROLS = [
    "\r", "\n", "\r\n", "\0", "\x07", "\x1b", "\x7f", "\x85", "\u2028", "\u2029", "\ud800",
]  # fmt: skip

pytestmark = pytest.mark.usefixtures("flask_mail_context")


def make(**fields: Any) -> flask_mail.Message:
    given = {"subject": "s", "body": "b", "sender": "a@b.example", "recipients": ["c@d.example"]}
    late = {name: fields.pop(name) for name in ("msgId",) if name in fields}
    message = flask_mail.Message(**{**given, **fields})
    for name, value in late.items():
        setattr(message, name, value)
    return message


def refused(**fields: Any) -> InvalidMessage:
    message = make(**fields)
    with pytest.raises(InvalidMessage) as caught:
        render(standard(message), send_at=None, max_size=10**6, split_size=10**6)
    return caught.value


def attachment(**fields: Any) -> list[flask_mail.Attachment]:
    given = {"filename": "a.txt", "content_type": "text/plain", "data": "x"}
    return [flask_mail.Attachment(**{**given, **fields})]


PLACES: dict[str, tuple[str, Any]] = {
    "subject": ("subject", lambda v: {"subject": v}),
    "sender": ("sender", lambda v: {"sender": v}),
    "sender's name": ("sender", lambda v: {"sender": (v, "a@b.example")}),
    "sender's address": ("sender", lambda v: {"sender": ("A", f"a{v}@b.example")}),
    "recipient": ("recipients", lambda v: {"recipients": [f"c{v}@d.example"]}),
    "recipient's name": ("recipients", lambda v: {"recipients": [(v, "c@d.example")]}),
    "recipient's address": ("recipients", lambda v: {"recipients": [("C", f"c@d{v}.example")]}),
    "cc": ("cc", lambda v: {"cc": [f"C{v} <c@d.example>"]}),
    "cc's name": ("cc", lambda v: {"cc": [(v, "c@d.example")]}),
    "bcc": ("bcc", lambda v: {"bcc": [f"c@d.example{v}"]}),
    "bcc's name": ("bcc", lambda v: {"bcc": [(v, "c@d.example")]}),
    "reply_to": ("reply_to", lambda v: {"reply_to": f"r{v}@d.example"}),
    "reply_to's name": ("reply_to", lambda v: {"reply_to": (v, "r@d.example")}),
    "msgId": ("msgId", lambda v: {"msgId": f"<x{v}@y.example>"}),
    "charset": ("charset", lambda v: {"charset": f"utf-8{v}"}),
    "header's name": ("extra_headers", lambda v: {"extra_headers": {f"X{v}": "x"}}),
    "header's value": ("extra_headers", lambda v: {"extra_headers": {"X": v}}),
    "alternative": ("alts", lambda v: {"alts": {f"html{v}": "x"}}),
    "file name": ("filename", lambda v: {"attachments": attachment(filename=f"a{v}.txt")}),
    "content type": (
        "content_type",
        lambda v: {"attachments": attachment(content_type=f"text/plain{v}")},
    ),
    "disposition": (
        "disposition",
        lambda v: {"attachments": attachment(disposition=f"inline{v}")},
    ),
    "part's header's name": (
        "headers",
        lambda v: {"attachments": attachment(headers={f"X{v}": "x"})},
    ),
    "part's header's value": (
        "headers",
        lambda v: {"attachments": attachment(headers={"X": f"x{v}"})},
    ),
    "mail option": ("mail_options", lambda v: {"mail_options": [f"RET=HDRS{v}"]}),
    "recipient option": ("rcpt_options", lambda v: {"rcpt_options": [f"NOTIFY=NEVER{v}"]}),
}


@pytest.mark.matrix
@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
@pytest.mark.parametrize("place", PLACES)
def test_a_control_character_is_refused_in_every_field(place: str, control: str) -> None:
    field, fields = PLACES[place]
    error = refused(**fields(f"x{control}Bcc: evil@x.example"))
    assert error.field == field
    assert error.rule
    assert "evil" not in str(error)


@pytest.mark.parametrize("option", ["", " ", "A B", "=x", "-A", "A=", "A=B C=1", "Ä", "A=ü"])
@pytest.mark.parametrize("field", ["mail_options", "rcpt_options"])
def test_what_is_no_esmtp_parameter_is_refused(field: str, option: str) -> None:
    assert refused(**{field: [option]}).field == field


@pytest.mark.parametrize("value", ["RET=HDRS", [5], [None], [b"RET=HDRS"], {"RET": "HDRS"}])
@pytest.mark.parametrize("field", ["mail_options", "rcpt_options"])
def test_options_are_a_list_of_texts(field: str, value: Any) -> None:
    assert refused(**{field: value}).field == field


@pytest.mark.parametrize("option", ["RET=HDRS", "ENVID=a+2Bb", "NOTIFY=SUCCESS,FAILURE", "X-OWN"])
def test_esmtp_parameters_pass(option: str) -> None:
    standard(make(mail_options=[option], rcpt_options=(option,)))


@pytest.mark.matrix
@pytest.mark.parametrize("field", ["recipients", "cc", "bcc"])
@pytest.mark.parametrize(
    "entry",
    [
        None, 5, b"a@b.example", (), ("a@b.example",), ("A", "a@b.example", "x"), ("A", None),
        ("A", b"a@b.example"), (b"A", "a@b.example"), ["A", "a@b.example"], "", "nobody",
        "a@b.example, c@b.example", "friends: a@b.example, c@b.example;", "a@b.example\tx", "a@",
        "a b@c.example", ("A", "a b@c.example"), ("A", "A <a@b.example>"), "a@b_c.example",
        "(" * 3000 + "@x.example",
    ],
    ids=lambda entry: ascii(entry)[:20],
)  # fmt: skip
def test_what_is_not_one_address_is_refused(field: str, entry: Any) -> None:
    assert refused(**{field: [entry]}).field == field


def test_a_string_in_the_place_of_a_list_of_recipients_is_refused() -> None:
    assert refused(recipients="c@d.example").field == "recipients"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sender": None}, "sender"),
        ({"sender": ""}, "sender"),
        ({"sender": "nobody"}, "sender"),
        ({"recipients": []}, "recipients"),
        ({"subject": b"s"}, "subject"),
        ({"body": b"b"}, "body"),
        ({"body": "b", "html": b"h"}, "body"),
        ({"body": "\ud800"}, "charset"),
        ({"body": "€", "charset": "latin-1"}, "charset"),
        ({"charset": "no such"}, "charset"),
        ({"charset": 5}, "charset"),
        ({"msgId": None}, "msgId"),
        ({"msgId": "x"}, "message-id"),
        ({"msgId": ""}, "message-id"),
        ({"extra_headers": {"X Y": "x"}}, "header"),
        ({"extra_headers": {"X:": "x"}}, "header"),
        ({"extra_headers": {5: "x"}}, "extra_headers"),
        ({"extra_headers": {"X": b"x"}}, "extra_headers"),
        ({"extra_headers": ["X"]}, "message"),
        ({"attachments": ["x"]}, "message"),
        ({"attachments": attachment(content_type="text")}, "content_type"),
        ({"attachments": attachment(content_type="/plain")}, "content_type"),
        ({"attachments": attachment(content_type="text/")}, "content_type"),
        ({"attachments": attachment(filename=5)}, "filename"),
        ({"attachments": attachment(data=5)}, "attachments"),
        ({"attachments": attachment(data="\ud800")}, "attachments"),
        ({"attachments": attachment(headers={"X Y": "x"})}, "header"),
        ({"date": "yesterday"}, "date"),
        ({"date": 1e300}, "date"),
    ],
)
def test_bad_input_is_refused_with_its_field(fields: dict[str, Any], field: str) -> None:
    error = refused(**fields)
    assert error.field == field
    assert str(error) == f"{error.field}: {error.rule}"


@pytest.mark.parametrize("thing", [None, "text", b"octets", 5, {}, EmailMessage], ids=repr)
def test_what_is_no_message_is_refused(thing: object) -> None:
    with pytest.raises(InvalidMessage, match=r"flask_mail\.Message") as caught:
        standard(thing)
    assert caught.value.field == "message"


def test_a_standard_message_is_handed_on_as_it_is() -> None:
    message = EmailMessage()
    assert standard(message) is message


@pytest.mark.parametrize("field", ["recipients", "cc", "bcc"])
@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ("Bob", "an address has the form local-part@domain"),
        ("Bob <bob@>", "is not an address (RFC 5322 §3.4)"),
        ("a@x.example, b@x.example", "each entry is one address"),
        (("Bob", "bob at x"), "an address has the form local-part@domain"),
    ],
)
def test_a_wrong_address_is_told_with_its_place(field: str, wrong: object, rule: str) -> None:
    error = refused(**{field: ["a@x.example", "b@x.example", wrong]})
    assert str(error) == f"{field}[2]: {rule}"
    assert (error.field, error.rule, error.index, error.value) == (field, rule, 2, wrong)
    message = object()
    outer = error.at("messages", 3, message)
    assert str(outer) == f"messages[3].{field}[2]: {rule}"
    assert (outer.field, outer.index, outer.value) == (field, 3, message)


@pytest.mark.parametrize("field", ["sender", "reply_to"])
def test_a_wrong_address_that_stands_in_no_list_has_no_place(field: str) -> None:
    error = refused(**{field: "Bob"})
    assert str(error) == f"{field}: an address has the form local-part@domain"
    assert str(error.at("messages", 3, None)) == f"messages[3]: {error}"


def test_a_text_is_no_list_of_people() -> None:
    assert str(refused(cc="a@x.example")) == "cc: must be a list of addresses, and not one text"


@pytest.mark.parametrize(
    ("name", "value"),
    [("attachments", ["a.txt"]), ("attachments", 5), ("alts", ["text"]), ("alts", 5)],
)
def test_what_has_no_size_is_refused_with_a_reason(name: str, value: object) -> None:
    message = make()
    setattr(message, name, value)
    with pytest.raises(InvalidMessage, match=r"message: cannot be read \(\w+Error\)"):
        refuse_heavy(message, 10**6)
