"""A content that many emails share: every header but those that are each email's own."""

from __future__ import annotations

import email
from datetime import UTC, datetime
from email.message import EmailMessage

from outbox.domain.message.render import render_shared

LATER = datetime(2026, 5, 4, tzinfo=UTC)


def letter() -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@b.example", "c@d.example", "hi"
    message.set_content("hello\n")
    return message


def test_a_shared_content_has_every_header_but_to_and_message_id() -> None:
    message = letter()
    del message["To"]
    message["Message-ID"], message["Reply-To"] = "<own@id.example>", "r@b.example"
    sender, data, smtputf8 = render_shared(message, send_at=LATER, max_size=10**7)
    found = email.message_from_bytes(data)
    assert (sender, smtputf8) == ("a@b.example", False)
    assert sorted(found.keys()) == [
        "Content-Transfer-Encoding", "Content-Type", "Date", "From", "MIME-Version", "Reply-To",
        "Subject",
    ]  # fmt: skip
    assert found["Date"] == "Mon, 04 May 2026 00:00:00 +0000"
    assert message["Message-ID"] == "<own@id.example>"


def test_a_shared_content_from_an_international_author_needs_smtputf8() -> None:
    message = letter()
    del message["To"], message["From"]
    message["From"] = "jö@b.example"
    sender, data, smtputf8 = render_shared(message, send_at=None, max_size=10**7)
    assert (sender, smtputf8) == ("jö@b.example", True)
    assert "From: jö@b.example\r\n".encode() in data
