"""What the fuzzer of `tests/fuzz` found once, each as a plain example."""

from __future__ import annotations

import email
from email import policy
from email.message import Message
from typing import Any

import flask_mail
import pytest

from outbox import InvalidMessage
from tests.integration.conftest import Shop

LONG: dict[str, str] = {
    "quotation marks": '"' * 30_000,
    "comments": "()" * 15_000,
    "dots": "a." * 15_000,
    "semicolons": ";" * 30_000,
    "encoded words": "=?utf-8?q?a?= " * 3000,
}


def parsed(name: str, value: str) -> Message[Any, Any]:
    head = f"From: shop@shop.example\nTo: a@x.example\n{name}: {value}\n\nhi\n"
    return email.message_from_string(head, policy=policy.default)


@pytest.mark.databases("sqlite")
@pytest.mark.timeout(20)  # CPython's parser would take minutes
@pytest.mark.parametrize("name", ["Cc", "Reply-To", "Resent-To", "Content-Disposition"])
def test_a_text_too_long_to_be_read_is_refused_at_once(shop: Shop, name: str) -> None:
    for value in LONG.values():
        with shop.session() as session, pytest.raises(InvalidMessage) as caught:
            shop.outbox.enqueue(parsed(name, value), session=session)
        assert caught.value.field.lower() == name.lower()


@pytest.mark.databases("sqlite")
@pytest.mark.timeout(20)
def test_a_recipient_too_long_to_be_read_is_refused_at_once(shop: Shop) -> None:
    with shop.app.app_context(), shop.session() as session:
        for value in LONG.values():
            mail = flask_mail.Message(recipients=[value], sender="shop@shop.example", body="hi")
            with pytest.raises(InvalidMessage, match=r"^recipients: each entry has at most"):
                shop.outbox.enqueue(mail, session=session)
