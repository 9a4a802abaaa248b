"""The content on the wire: the fence before it and before its dot, and what a tear leaves known."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.transaction import Phase, Verdict
from outbox.smtp.connection import Connection
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.scripted import (
    AT_DOT,
    DATA,
    GREET,
    MAIL,
    RCPT,
    Script,
    ScriptedServer,
    content,
    expect,
    freeze,
    reset,
    take,
)

SMALL = b"Subject: x\r\n\r\nHello\r\n"
LARGE = b"Subject: x\r\n\r\n" + b"0123456789" * 5 * 2**12 + b"\r\n"
HUGE = b"Subject: x\r\n\r\n" + b"x" * 32 * 2**20 + b"\r\n"
NO_SIZE: Script = (GREET, expect("EHLO", "250 scripted.example"), MAIL, RCPT, DATA)
READS_ALL: Script = (*AT_DOT, content("250 ok"))


class Fence:
    """Gives the answers that a test wrote down, and counts the questions."""

    def __init__(self, *answers: bool) -> None:
        self._answers = iter(answers)
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return next(self._answers)


def test_a_lease_lost_before_the_content_leaves_no_octet_of_it() -> None:
    with ScriptedServer(READS_ALL) as server:
        connection = Connection(server.settings())
        result = connection.send(envelope(), SMALL, Fence(False))
        assert server.dialogues[0].over.wait(5)
        assert connection.send(envelope(), SMALL, lease_held).verdict is Verdict.SENT
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.BODY)
    assert result.recipients[0].verdict is Verdict.UNSENT
    assert (server.dialogues[0].torn, server.dialogues[0].bodies) == (b"", [])
    assert server.verbs(0) == ["EHLO", "MAIL", "RCPT", "DATA"]


def test_a_lease_lost_before_the_dot_of_a_large_email_leaves_it_without_its_dot() -> None:
    with ScriptedServer(READS_ALL) as server:
        connection = Connection(server.settings())
        result = connection.send(envelope(), LARGE, Fence(True, False))
        assert server.dialogues[0].over.wait(5)
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.BODY)
    assert server.bodies == []
    assert 0 < len(server.dialogues[0].torn) < len(LARGE)
    assert LARGE.startswith(server.dialogues[0].torn)


def test_the_fence_is_asked_once_for_a_small_email_and_twice_for_a_large_one() -> None:
    with ScriptedServer() as server:
        connection = Connection(server.settings())
        once, twice = Fence(True), Fence(True, True)
        assert connection.send(envelope(), SMALL, once).verdict is Verdict.SENT
        assert connection.send(envelope(), LARGE, twice).verdict is Verdict.SENT
        connection.close()

    assert (once.asked, twice.asked) == (1, 2)
    assert server.bodies == [SMALL + b".\r\n", LARGE + b".\r\n"]


def test_an_error_of_our_own_in_the_content_is_passed_on_and_the_dot_never_leaves() -> None:
    with ScriptedServer(READS_ALL) as server:
        connection = Connection(server.settings())
        with pytest.raises(StopIteration):
            connection.send(envelope(), LARGE, Fence(True))
        assert server.dialogues[0].over.wait(5)
        assert connection.send(envelope(), SMALL, lease_held).verdict is Verdict.SENT
        connection.close()

    assert server.bodies == [SMALL + b".\r\n"]


def test_a_body_lost_midway_is_known_to_be_unsent() -> None:
    with ScriptedServer((*NO_SIZE, take(100_000, reset))) as server:
        connection = Connection(server.settings())
        result = connection.send(envelope(), HUGE, lease_held)
        assert connection.send(envelope(), SMALL, lease_held).verdict is Verdict.SENT
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.BODY)
    assert result.reply.code == 0


def test_a_server_that_takes_no_more_octets_is_left_after_the_deadline() -> None:
    with ScriptedServer((*NO_SIZE, freeze)) as server:
        connection = Connection(server.settings(command_timeout=0.3))
        result = connection.send(envelope(), HUGE, lease_held)
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.BODY)
