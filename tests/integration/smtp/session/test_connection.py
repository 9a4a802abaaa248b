"""How long a connection is used, and what becomes of one that the server or a fork took away."""

from __future__ import annotations

import itertools
import os
import time
import warnings

import pytest

from outbox.domain.delivery.transaction import Phase, Verdict
from outbox.smtp.connection import Connection
from outbox.smtp.reply_reader import LOOK
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.scripted import (
    AT_DATA,
    AT_DOT,
    AT_RCPT,
    GREET,
    HELLO,
    MAIL,
    Script,
    ScriptedServer,
    close,
    content,
    drip,
    expect,
    reset,
    serve,
    stall,
)
from tests.support.shop.shop import addresses

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
ONE_MAIL: Script = (*AT_DOT, content("250 ok"))


def test_a_connection_is_used_for_so_many_emails_and_ends_with_quit() -> None:
    with ScriptedServer() as server:
        connection = Connection(server.settings(connection_emails=2))
        for _ in range(5):
            assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        connection.close()

    assert [server.verbs(number).count("MAIL") for number in range(3)] == [2, 2, 1]
    assert [server.verbs(number)[-1] for number in range(3)] == ["QUIT"] * 3


def test_a_connection_is_not_used_beyond_its_seconds() -> None:
    now = 1000.0
    with ScriptedServer() as server:
        settings = server.settings(connection_seconds=300.0)
        connection = Connection(settings, clock=lambda: now)
        connection.send(envelope(), CONTENT, lease_held)
        now += 299.0
        connection.send(envelope(), CONTENT, lease_held)
        now += 2.0
        connection.send(envelope(), CONTENT, lease_held)
        connection.close()

    assert [server.verbs(number).count("MAIL") for number in range(2)] == [2, 1]


def test_a_probe_opens_the_connection_that_the_next_email_uses() -> None:
    with ScriptedServer() as server:
        connection = Connection(server.settings())
        assert connection.connect() is None
        assert connection.connect() is None
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        connection.close()

    assert len(server.dialogues) == 1


def test_an_idle_connection_that_the_server_closed_is_replaced_without_a_charge() -> None:
    for goodbye in (close, reset):
        with ScriptedServer((*ONE_MAIL, goodbye)) as server:
            connection = Connection(server.settings())
            connection.send(envelope(), CONTENT, lease_held)
            assert server.dialogues[0].over.wait(5)
            result = connection.send(envelope(), CONTENT, lease_held)
            connection.close()

        assert (result.verdict, len(server.dialogues)) == (Verdict.SENT, 2)


def test_an_idle_connection_that_answers_421_is_replaced_without_a_charge() -> None:
    for goodbye in (expect("MAIL", "421 idle for too long"), drip(b"421 idle\r\n", times=1)):
        with ScriptedServer((*ONE_MAIL, goodbye)) as server:
            connection = Connection(server.settings())
            connection.send(envelope(), CONTENT, lease_held)
            result = connection.send(envelope(), CONTENT, lease_held)
            connection.close()

        assert (result.verdict, len(server.dialogues)) == (Verdict.SENT, 2)


def test_a_lost_connection_is_replaced_only_once() -> None:
    lost: Script = (*HELLO, expect("MAIL", None), close)
    with ScriptedServer((*ONE_MAIL, close), lost) as server:
        connection = Connection(server.settings())
        connection.send(envelope(), CONTENT, lease_held)
        assert server.dialogues[0].over.wait(5)
        result = connection.send(envelope(), CONTENT, lease_held)
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.MAIL)
    assert len(server.dialogues) == 2


def test_a_lost_connection_after_mail_was_answered_is_not_tried_again_by_itself() -> None:
    with ScriptedServer((*ONE_MAIL, MAIL, expect("RCPT", None), close)) as server:
        connection = Connection(server.settings())
        connection.send(envelope(), CONTENT, lease_held)
        result = connection.send(envelope(), CONTENT, lease_held)
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.RCPT)
    assert len(server.dialogues) == 1


def test_after_a_fork_the_child_opens_its_own_and_leaves_the_parents_alone() -> None:
    with ScriptedServer() as server:
        connection = Connection(server.settings())
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork beside threads
            child = os.fork()
        if not child:
            sent = connection.send(envelope("child@example.org"), CONTENT, lease_held)
            os._exit(0 if sent.verdict is Verdict.SENT else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        connection.close()

    assert server.verbs(0) == ["EHLO", *["MAIL", "RCPT", "DATA"] * 2, "QUIT"]
    assert server.dialogues[1].lines[2] == "RCPT TO:<child@example.org>"
    assert len(server.dialogues) == 2


def test_an_inherited_connection_is_closed_without_a_word() -> None:
    with ScriptedServer() as server:
        connection = Connection(server.settings())
        connection.connect()
        connection._process -= 1  # as a child sees its parent's
        connection.close()
        assert server.dialogues[0].over.wait(5)

    assert server.verbs(0) == ["EHLO"]


def test_the_goodbye_of_a_silent_server_is_not_waited_for() -> None:
    for silence in (stall, drip(b"2"), close):
        with ScriptedServer((*ONE_MAIL, expect("QUIT", None), silence)) as server:
            connection = Connection(server.settings(command_timeout=0.2))
            assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
            started = time.monotonic()
            connection.close()
            connection.close()
            assert time.monotonic() - started < 2.0


def test_the_name_in_ehlo_is_a_full_name_or_an_address_literal() -> None:
    with ScriptedServer() as server:
        connection = Connection(server.settings(helo_name=""))
        connection.connect()
        connection.close()

    name = server.dialogues[0].lines[0].split(" ")[1]
    assert "." in name
    assert name == "[127.0.0.1]" or not name.startswith("[")


@pytest.mark.long
def test_a_slow_drip_does_not_extend_a_replys_deadline() -> None:
    slow, lines = drip(b"2"), drip(b"250-line\r\n")
    scripts: list[tuple[Script, Verdict, Phase]] = [
        ((slow,), Verdict.HALT, Phase.GREETING),
        ((GREET, expect("EHLO", None), drip(b"250-x\r\n")), Verdict.HALT, Phase.EHLO),
        ((*HELLO, expect("MAIL", None), slow), Verdict.UNSENT, Phase.MAIL),
        ((*AT_RCPT, expect("RCPT", None), lines), Verdict.UNSENT, Phase.RCPT),
        ((*AT_DATA, expect("DATA", None), slow), Verdict.UNSENT, Phase.DATA),
        ((*AT_DOT, content(None), lines), Verdict.UNKNOWN, Phase.DOT),
        ((*AT_DOT, content(None), drip(b"\r\x00")), Verdict.UNKNOWN, Phase.DOT),
    ]
    for script, verdict, phase in scripts:
        with ScriptedServer(script) as server:
            settings = server.settings(command_timeout=0.5, dot_timeout=0.5)
            connection = Connection(settings)
            started = time.monotonic()
            result = connection.send(envelope(), CONTENT, lease_held)
            connection.close()
            assert time.monotonic() - started < 5.0  # the drip alone takes ten
        assert (result.verdict, result.phase) == (verdict, phase)
        assert "deadline" in result.reply.text or "timed out" in result.reply.text


@pytest.mark.parametrize("piece", [b"2", b"250-line\r\n"])
def test_a_server_that_drips_is_left_where_other_emails_wait(piece: bytes) -> None:
    seconds = itertools.count()  # one passes at each look at the clock
    with ScriptedServer((*HELLO, expect("MAIL", None), drip(piece))) as server:
        settings = server.settings(command_timeout=1e6, transaction_timeout=1e6)
        connection = Connection(settings, clock=lambda: float(next(seconds)))
        connection.report(lambda: None, lambda: "MAIL" not in server.verbs(0))
        result = connection.send(envelope(), CONTENT, lease_held)
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.MAIL)
    assert result.wait_given_up is True


def test_a_server_that_takes_its_time_for_each_reply_is_left_where_other_emails_wait() -> None:
    """No reply takes long enough to be asked for; all together they do."""
    now = 0.0

    def late() -> None:
        nonlocal now
        now += 0.9 * LOOK

    with ScriptedServer((*HELLO, serve)) as server:
        settings = server.settings(command_timeout=1e6, transaction_timeout=1e6)
        connection = Connection(settings, clock=lambda: now)
        connection.report(late, lambda: "RCPT" not in server.verbs(0))
        result = connection.send(envelope(*addresses(20)), CONTENT, lease_held)
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.RCPT)
    assert result.wait_given_up is True


def test_the_reply_to_the_dot_has_a_longer_deadline_of_its_own() -> None:
    slowly = (drip(bytes([octet]), times=1, interval=0.1) for octet in b"250 ok\r\n")
    with ScriptedServer((*AT_DOT, content(None), *slowly)) as server:
        connection = Connection(server.settings(command_timeout=0.5))
        result = connection.send(envelope(), CONTENT, lease_held)
        connection.close()

    assert result.verdict is Verdict.SENT


def test_a_good_server_is_told_nothing_more_than_the_email_needs() -> None:
    with ScriptedServer((*HELLO, serve)) as server:
        connection = Connection(server.settings())
        connection.send(envelope("a@example.org", "b@example.org"), CONTENT, lease_held)
        connection.close()

    assert server.dialogues[0].lines == [
        "ehlo client.example",
        "MAIL FROM:<shop@example.org> SIZE=21",
        "RCPT TO:<a@example.org>",
        "RCPT TO:<b@example.org>",
        "DATA",
        "QUIT",
    ]
