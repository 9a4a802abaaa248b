"""A message that bears a DKIM signature goes as it was signed, or is refused: never mended."""

from __future__ import annotations

import email
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage, Message
from typing import Any

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import render, render_shared

LIMITS: dict[str, Any] = {"max_size": 10**6, "split_size": 10**6}
LATER = datetime(2026, 5, 4, tzinfo=UTC)
DKIM = "DKIM-Signature: v=1; a=rsa-sha256; d=b.example; s=x; h=from:to:date;\r\n bh=x; b=y\r\n"
HEAD = (
    "From: Jo\r\n  Doe <a@b.example>\r\nTo: c@d.example\r\nSubject: one\r\n\ttwo\r\n"
    "Date: Mon, 01 Jan 2024 00:00:00 +0000\r\nMessage-ID: <a@b>\r\n"
)
PARSERS = [policy.compat32, policy.default, policy.SMTP]


@pytest.mark.parametrize("parser", PARSERS, ids=repr)
@pytest.mark.parametrize("send_at", [None, LATER])
def test_a_signed_message_goes_byte_for_byte(
    parser: policy.Policy[Any], send_at: datetime | None
) -> None:
    data = (DKIM + HEAD + "\r\nGrüße\r\n").encode()
    found = render(email.message_from_bytes(data, policy=parser), send_at=send_at, **LIMITS)
    assert found.content == data


REPAIRED = {
    "a name in UTF-8": ("from", HEAD.replace("Jo\r\n  Doe", "Jö")),
    "an international domain": ("to", HEAD.replace("c@d", "c@bücher")),
    "an international address": ("from", HEAD.replace("a@b.", "jö@b.")),
    "a subject in UTF-8": ("subject", HEAD.replace("one", "Grüße")),
}


def read(text: str, parser: policy.Policy[Any]) -> Message[Any, Any]:
    """Parse the text, or its octets: of those no parser reads an address outside of ASCII."""
    if "ö@" in text or "@bü" in text:
        return email.message_from_string(text, policy=parser)
    return email.message_from_bytes(text.encode(), policy=parser)


@pytest.mark.parametrize("parser", PARSERS, ids=repr)
@pytest.mark.parametrize("case", REPAIRED)
def test_what_would_be_mended_is_refused_where_it_is_signed(
    parser: policy.Policy[Any], case: str
) -> None:
    field, head = REPAIRED[case]
    text = head + "\r\nhello\r\n"
    render(read(text, parser), send_at=None, **LIMITS)
    signed = read(DKIM + text, parser)
    with pytest.raises(InvalidMessage, match="DKIM") as caught:
        render(signed, send_at=None, **LIMITS)
    assert caught.value.field.lower() == field


def made(author: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = author, "c@d.example"
    message["DKIM-Signature"] = "v=1; d=b.example; h=from; bh=x; b=y"
    message.set_content("hello")
    return message


def test_what_python_code_encodes_itself_is_not_mended() -> None:
    message = made("Jö <a@b.example>")
    mail = render(message, send_at=None, **LIMITS)
    field = message.as_bytes(policy=policy.SMTP).partition(b"\r\n")[0]
    assert mail.content.startswith(field + b"\r\n")
    with pytest.raises(InvalidMessage, match="DKIM"):
        render(made("Jo <a@bücher.example>"), send_at=None, **LIMITS)


def test_a_content_that_many_share_is_held_to_the_same() -> None:
    message = made("Jo <a@bücher.example>")
    del message["To"]
    with pytest.raises(InvalidMessage, match="DKIM"):
        render_shared(message, send_at=None, max_size=10**6)
