"""Staging: one copy of each email to one address, and it says for whom it was."""

from __future__ import annotations

from dataclasses import replace
from email.parser import BytesParser

import pytest

from outbox.domain.delivery.redirect import redirect, restore
from outbox.domain.delivery.transaction import (
    Envelope,
    Phase,
    RecipientResult,
    Reply,
    Transaction,
    Verdict,
)
from outbox.domain.mime.line_endings import has_long_line, header_names

TO = "dev@example.com"
HEADERS = b"To: a@x.example\r\nSubject: Hi\r\n"
ENVELOPE = Envelope(
    sender="shop@shop.example",
    recipients=("a@x.example", "hidden@y.example"),
    mail_options=("RET=HDRS",),
    rcpt_options=("NOTIFY=FAILURE", "ORCPT=rfc822;a@x.example"),
)


def test_the_envelope_names_the_one_address_and_none_of_the_recipients() -> None:
    redirected, _ = redirect(ENVELOPE, TO)
    assert redirected.recipients == (TO,)
    assert redirected.rcpt_options == ()
    assert (redirected.sender, redirected.mail_options) == (ENVELOPE.sender, ("RET=HDRS",))


def test_the_headers_tell_where_it_went_and_where_it_would_have_gone() -> None:
    _, headers = redirect(ENVELOPE, TO)
    message = BytesParser().parsebytes(headers + HEADERS + b"\r\nbody")
    assert message["X-Outbox-Redirected-To"] == TO
    assert message.get_all("X-Original-To") == ["a@x.example", "hidden@y.example"]
    assert (message["To"], message["Subject"]) == ("a@x.example", "Hi")


def test_a_thousand_recipients_make_no_line_too_long() -> None:
    many = replace(ENVELOPE, recipients=tuple(f"r{n:04}@x.example" for n in range(1000)))
    assert not has_long_line(redirect(many, TO)[1])


def test_an_address_of_a_damaged_table_begins_no_header() -> None:
    evil = replace(ENVELOPE, recipients=("a@x.example\r\nBcc: b@x.example\udc80",))
    _, headers = redirect(evil, TO)
    assert header_names(headers) == ["X-Outbox-Redirected-To", "X-Original-To"]


@pytest.mark.parametrize("verdict", [Verdict.SENT, Verdict.RETRY, Verdict.FAIL, Verdict.UNKNOWN])
def test_what_became_of_the_one_copy_became_of_every_recipient(verdict: Verdict) -> None:
    reply = Reply(code=250, text="queued")
    one = RecipientResult(address=TO, verdict=verdict, reply=reply)
    result = Transaction(
        verdict=verdict, phase=Phase.DOT, reply=reply, recipients=(one,), retry_after=5.0
    )
    restored = restore(result, ENVELOPE)
    assert [r.address for r in restored.recipients] == list(ENVELOPE.recipients)
    assert {(r.verdict, r.reply) for r in restored.recipients} == {(verdict, reply)}
    assert (restored.verdict, restored.retry_after) == (verdict, 5.0)


def test_a_halt_that_judged_nobody_is_everybodys() -> None:
    halt = Transaction(verdict=Verdict.HALT, phase=Phase.CONNECT, reply=Reply(code=0), alert=True)
    restored = restore(halt, ENVELOPE)
    assert {r.verdict for r in restored.recipients} == {Verdict.HALT}
    assert len(restored.recipients) == 2
    assert restored.alert
