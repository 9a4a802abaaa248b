"""What one envelope says to the server, what is kept of the replies, and what never leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outbox.domain.delivery.transaction import Envelope, Phase, Verdict
from outbox.smtp.connection import Connection
from tests.support.servers.smtp.client import envelope, lease_held, server_settings
from tests.support.servers.smtp.scripted import (
    AT_DOT,
    AT_RCPT,
    EXTENSIONS,
    GREET,
    ScriptedServer,
    content,
    expect,
    serve,
)

CONTENT = b"Subject: x\r\n\r\nHello\r\n"


def test_the_reply_to_the_final_dot_is_kept() -> None:
    with ScriptedServer((*AT_DOT, content("250 2.0.0 Ok: queued as 4F2"))) as server:
        connection = Connection(server.settings())
        result = connection.send(envelope(), CONTENT, lease_held)
        connection.close()

    assert (result.reply.code, result.reply.enhanced) == (250, "2.0.0")
    assert result.reply.text == "Ok: queued as 4F2"
    assert result.recipients[0].reply is result.reply


def test_an_answer_given_twice_at_rset_is_not_taken_for_the_next_emails() -> None:
    twice = expect("RSET", "250 ok\n250 ok")
    with ScriptedServer((*AT_RCPT, expect("RCPT", "550 no"), twice)) as server:
        connection = Connection(server.settings())
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.FAIL
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        connection.close()

    assert len(server.dialogues) == 2


def test_nobody_listening_is_a_halt_at_connect() -> None:
    with ScriptedServer() as server:
        port = server.port
    connection = Connection(server_settings(port))

    result = connection.send(envelope("a@example.org", "b@example.org"), CONTENT, lease_held)

    assert (result.verdict, result.phase, result.reply.code) == (Verdict.HALT, Phase.CONNECT, 0)
    assert [r.verdict for r in result.recipients] == [Verdict.HALT, Verdict.HALT]
    probe = connection.connect()
    assert probe is not None
    assert (probe.verdict, probe.recipients) == (Verdict.HALT, ())


@pytest.mark.parametrize(
    ("mail", "size", "verdict", "reason"),
    [
        (replace(envelope(), recipients=()), 10, Verdict.FAIL, "no recipient"),
        (replace(envelope(), smtputf8=True), 10, Verdict.LACKING, "SMTPUTF8"),
        (envelope(), 101, Verdict.LACKING, "100"),
        (envelope("\xfc@example.org"), 10, Verdict.FAIL, "SMTPUTF8"),
        (
            envelope("a@example.org\r\nRCPT TO:<evil@example.org>"),
            10,
            Verdict.FAIL,
            "white space",
        ),
        (
            envelope("a@example.org> NOTIFY=NEVER <b@example.org"),
            10,
            Verdict.FAIL,
            "white space",
        ),
    ],
)
def test_an_email_that_the_server_cannot_take_is_judged_before_anything_is_sent(
    mail: Envelope, size: int, verdict: Verdict, reason: str
) -> None:
    hello = expect("EHLO", "250-scripted.example\n250 SIZE 100")
    with ScriptedServer([GREET, hello, serve]) as server:
        connection = Connection(server.settings())
        result = connection.send(mail, b"x" * (size - 2) + b"\r\n", lease_held)
        assert connection.send(envelope(), b"x\r\n", lease_held).verdict is Verdict.SENT
        connection.close()

    assert (result.verdict, result.phase) == (verdict, Phase.MAIL)
    assert reason in result.reply.text
    assert server.verbs(0) == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]


def test_parameters_are_sent_only_for_offered_extensions() -> None:
    mail = Envelope(
        sender="",
        recipients=("\xfc@example.org",),
        smtputf8=True,
        eightbit=True,
        mail_options=("RET=HDRS", "SIZE=1", "MT-PRIORITY=3"),
        rcpt_options=("NOTIFY=NEVER",),
    )
    hello = expect("EHLO", EXTENSIONS.replace("250 SMTPUTF8", "250-SMTPUTF8\n250 DSN"))
    with ScriptedServer([GREET, hello, serve]) as server:
        connection = Connection(server.settings())
        assert connection.send(mail, b"x\r\n", lease_held).verdict is Verdict.SENT
        connection.close()

    assert server.dialogues[0].lines[1:3] == [
        "MAIL FROM:<> SIZE=3 BODY=8BITMIME SMTPUTF8 RET=HDRS",
        "RCPT TO:<\xfc@example.org> NOTIFY=NEVER",
    ]
