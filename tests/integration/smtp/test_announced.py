"""An announced email whose server ends the connection before its content: it goes over another."""

from __future__ import annotations

import select
import threading
from typing import TYPE_CHECKING

import pytest

from outbox.domain.delivery.transaction import Transaction, Verdict
from outbox.smtp import body
from outbox.smtp.connection import Connection
from outbox.smtp.envelope_session import MOMENT
from outbox.smtp.reply_reader import ReplyReader
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.scripted import (
    GREET,
    PATIENCE,
    Script,
    ScriptedServer,
    Step,
    close,
    content,
    expect,
    reset,
    say,
    serve,
    stall,
)
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.servers.authority import Authority
    from tests.support.servers.smtp.dialogue import Dialogue

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
ON_WIRE = CONTENT + b".\r\n"
HELLO: Script = (GREET, expect("EHLO", "250-scripted.example\n250 PIPELINING"))
ENVELOPE: Script = (expect("MAIL", None), expect("RCPT", None), expect("DATA", None))
BOTH: Script = (*HELLO, *ENVELOPE, say("250 ok\n250 ok\n354 go on"), content(None), *ENVELOPE)
FIRST, SECOND = envelope("a@example.org"), envelope("b@example.org")
GOOD = "250 ok\n250 ok\n354 go on"
MAIL_REFUSED = "550 5.1.8 sender\n503 5.5.1 MAIL first\n503 5.5.1 MAIL first"

each_arrival = pytest.mark.parametrize("is_together", [True, False], ids=["together", "later"])
"""Whether the second email's replies come with the reply to the first one's dot, or after it."""

each_socket = pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])


class Pause:
    """The time between two emails of a connection: a transaction of the database, for example."""

    def __init__(self, seconds: float = 2 * MOMENT) -> None:
        self._now, self._seconds = 0.0, seconds
        self.begun = threading.Event()

    def clock(self) -> float:
        return self._now

    def wait(self, dialogue: Dialogue) -> None:
        """Be the step of a server that goes on when the first email is sent."""
        assert self.begun.wait(PATIENCE)

    def begin(self) -> None:
        self.begun.set()
        self._now += self._seconds


def replies(pause: Pause, second: str, *, is_together: bool) -> Script:
    """The first email's reply and the second one's, at one time or after another."""
    if is_together:
        return (say(f"250 first\n{second}"), pause.wait)
    return (say("250 first"), pause.wait, say(second))


def send_both(
    server: ScriptedServer, pause: Pause, trusted: dict[str, object], *, awaits: int = 0
) -> list[Transaction]:
    """Send the first email, wait for the events `awaits` of its socket, and send the second."""
    connection = Connection(server.settings(**trusted), clock=pause.clock)
    first = connection.send(FIRST, CONTENT, lease_held, SECOND)
    pause.begin()
    if awaits:
        assert connection._client is not None
        assert connection._client.sock is not None
        poll = select.poll()
        poll.register(connection._client.sock, awaits)
        wait_until(lambda: poll.poll(0), PATIENCE, "the server's octets")
    second = connection.send(SECOND, CONTENT, lease_held)
    connection.close()
    return [first, second]


def trust(authority: Authority, is_tls: bool) -> dict[str, object]:
    return {"security": "tls", **authority.trusted} if is_tls else {}


@each_socket
@each_arrival
@pytest.mark.parametrize(
    "last",
    [(close,), (say("421 4.4.2 timeout"), close), (reset,)],
    ids=["closed", "421 and closed", "reset"],
)
def test_it_is_neither_in_doubt_nor_charged(
    authority: Authority, last: tuple[Step, ...], is_together: bool, is_tls: bool
) -> None:
    pause = Pause()
    script = (*BOTH, *replies(pause, GOOD, is_together=is_together), *last)
    with ScriptedServer(script, tls=authority.server if is_tls else None) as server:
        results = send_both(server, pause, trust(authority, is_tls), awaits=select.POLLRDHUP)
    assert [result.verdict for result in results] == [Verdict.SENT, Verdict.SENT]
    assert [dialogue.bodies for dialogue in server.dialogues] == [[ON_WIRE], [ON_WIRE]]
    assert server.dialogues[0].torn == b""


@pytest.mark.parametrize("left", [1, 6, 40])
def test_a_connection_that_took_a_part_of_the_announcement_takes_no_other_email(
    left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a server reads slowly: what came next would be read as the end of that command."""

    def no_room(*_: object) -> None:
        raise TimeoutError

    script = (*HELLO, *ENVELOPE, say(GOOD), content("250 first"), stall)
    with ScriptedServer(script) as server:
        connection = Connection(server.settings())
        with monkeypatch.context() as slow:
            slow.setattr(body, "BLOCK", len(ON_WIRE) + left)
            slow.setattr(body, "_wait_writable", no_room)
            first = connection.send(FIRST, CONTENT, lease_held, SECOND)
        second = connection.send(SECOND, CONTENT, lease_held)
        connection.close()
    assert [result.verdict for result in (first, second)] == [Verdict.SENT, Verdict.SENT]
    assert [dialogue.bodies for dialogue in server.dialogues] == [[ON_WIRE], [ON_WIRE]]
    assert len(server.dialogues[0].data) == left, "neither QUIT nor another command"


def test_a_421_ends_the_connection_before_the_server_closes_it() -> None:
    pause = Pause()
    script = (*BOTH, *replies(pause, GOOD, is_together=True), say("421-4.4.2 a\n421 4.4.2 b"))
    with ScriptedServer((*script, stall)) as server:
        results = send_both(server, pause, {}, awaits=select.POLLIN)
    assert [result.verdict for result in results] == [Verdict.SENT, Verdict.SENT]
    assert [dialogue.bodies for dialogue in server.dialogues] == [[ON_WIRE], [ON_WIRE]]


@each_socket
@each_arrival
def test_where_the_server_is_there_the_content_goes_over_the_same_connection(
    authority: Authority, is_together: bool, is_tls: bool
) -> None:
    pause = Pause()
    script = (*BOTH, *replies(pause, GOOD, is_together=is_together), content("250 second"), serve)
    with ScriptedServer(script, tls=authority.server if is_tls else None) as server:
        results = send_both(server, pause, trust(authority, is_tls))
    assert [result.reply.text for result in results] == ["first", "second"]
    assert [dialogue.bodies for dialogue in server.dialogues] == [[ON_WIRE, ON_WIRE]]


@each_arrival
def test_a_refusal_by_a_server_that_is_there_stands(is_together: bool) -> None:
    pause = Pause()
    script = (*BOTH, *replies(pause, MAIL_REFUSED, is_together=is_together), serve)
    with ScriptedServer(script) as server:
        first, second = send_both(server, pause, {}, awaits=0 if is_together else select.POLLIN)
    assert (first.verdict, second.verdict) == (Verdict.SENT, Verdict.FAIL)
    assert len(server.dialogues) == 1


def test_between_emails_that_follow_at_once_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[ReplyReader] = []
    monkeypatch.setattr(ReplyReader, "has_ended", lambda reader: looks.append(reader))
    for seconds, expected in ((0.0, 0), (2 * MOMENT, 1)):
        pause = Pause(seconds)
        script = (*BOTH, *replies(pause, GOOD, is_together=True), content("250 second"))
        with ScriptedServer(script) as server:
            send_both(server, pause, {})
        assert (len(looks), len(server.bodies)) == (expected, 2)
