"""Which refusals say of themselves that they are the session's."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.session_refusal import is_of_session, refusal_in_a_row
from outbox.domain.delivery.transaction import Phase, RecipientResult, Reply, Transaction, Verdict
from outbox.smtp.reply_reader import parse_reply


def reply_of(said: str) -> Reply:
    return parse_reply(int(said[:3]), said[4:].encode())


@pytest.mark.parametrize(
    "said",
    [
        "452 4.4.5 Maximum number of messages per session exceeded.",
        "451 Requested action aborted\nMails per session limit exceeded.",
        "550 You have exceeded the max number of messages per session.",
        "421 4.7.0 Maximum message count per session reached.",
        "421 too many messages in this connection",
        "450 4.7.1 No more than 20 messages for one SMTP session",
        "451 4.7.0 Session message limit exceeded",
        "451 4.7.1 Please open a new connection",
        "550 5.7.1 Start a new session to send more",
        "451 please disconnect and reconnect",
    ],
)
def test_words_of_the_session(said: str) -> None:
    assert is_of_session(Phase.DATA, reply_of(said))


@pytest.mark.parametrize(
    "said",
    [
        "250 2.0.0 queued, 20 messages per session at most",
        "452 4.2.2 The mailbox is over quota",
        "552 5.3.4 Message size exceeds fixed limit",
        "450 4.7.1 Error: too many connections from 192.0.2.1",
        "421 4.7.0 Too many concurrent sessions",
        "451 4.4.2 Timeout waiting for data from client; the connection is closed",
        "451 4.7.1 Service unavailable - try again later",
        "550 5.7.1 <max.in.session@shop.example>: limit exceeded",
        "451 4.3.0 Error in connection to the backend",
        "452 4.5.3 Too many messages",
        "550 5.7.1 Your account may not send on this connection",
        "550 5.7.1 Your country may not send on this connection",
        "451 4.3.0 Error encountered on this connection",
    ],
)
def test_words_of_something_else(said: str) -> None:
    assert not is_of_session(Phase.DATA, reply_of(said))


def test_too_many_messages_at_mail_are_the_sessions_with_the_code_of_too_many_recipients() -> None:
    assert is_of_session(Phase.MAIL, reply_of("452 4.5.3 Too many recipients: Too many messages"))
    assert not is_of_session(Phase.MAIL, reply_of("450 4.7.1 Too many messages from 192.0.2.1"))


def result(verdict: Verdict, phase: Phase, said: str) -> Transaction:
    reply = reply_of(said)
    own = RecipientResult(address="a@x.example", verdict=verdict, reply=reply)
    return Transaction(verdict=verdict, phase=phase, reply=reply, recipients=(own,))


def test_only_a_verdict_on_the_email_can_be_one_of_a_row() -> None:
    said = "451 4.7.1 Service unavailable - try again later"
    assert refusal_in_a_row(result(Verdict.RETRY, Phase.MAIL, said)) is not None
    assert refusal_in_a_row(result(Verdict.UNKNOWN, Phase.DOT, said)) is None
    assert refusal_in_a_row(result(Verdict.SUSPECT, Phase.MAIL, said)) is None
    greylisted = "450 4.2.0 Greylisted"
    assert refusal_in_a_row(result(Verdict.RETRY, Phase.RCPT, greylisted)) is None
