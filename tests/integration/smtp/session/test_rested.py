"""A session that rested may be gone without a word: a firewall forgot it, or its host is dead."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from threading import Event

import pytest

from outbox.domain.delivery.transaction import Verdict
from outbox.smtp import reply_reader, session
from outbox.smtp.connection import Connection
from outbox.smtp.session import RESTED
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import (
    AT_DOT,
    DATA,
    GREET,
    HELLO,
    MAIL,
    PATIENCE,
    RCPT,
    Script,
    ScriptedServer,
    Step,
    close,
    content,
    drip,
    expect,
    say,
    serve,
    stall,
)
from tests.support.waiting import wait_until

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
ON_WIRE = CONTENT + b".\r\n"
FIRST, SECOND = envelope("a@example.org"), envelope("b@example.org")
ONE_MAIL: Script = (*AT_DOT, content("250 ok"))
TO_CONNECT = 0.5
BOUNDS: dict[str, object] = {"connect_timeout": TO_CONNECT, "command_timeout": PATIENCE / 2}
PIPELINING: Script = (GREET, expect("EHLO", "250-scripted.example\n250 PIPELINING"))
ENVELOPE: Script = (expect("MAIL", None), expect("RCPT", None), expect("DATA", None))
GOOD = "250 ok\n250 ok\n354 go on"
GROUP: Script = (*PIPELINING, *ENVELOPE, say(GOOD))
SES = "451 4.4.2 Timeout waiting for data from client."
EXCHANGE = "451 4.7.0 Timeout waiting for client input"
SYSTEM = "451 4.3.2 System going down"
THROTTLED = "450 4.7.0 Too many idle sessions"
OF_SERVER = pytest.mark.parametrize("words", [SYSTEM, THROTTLED])


class Clock:
    """Runs like any other, and can be put forward: no test waits for a session to have rested."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead

    def rest(self, seconds: float = 2 * RESTED) -> None:
        self._ahead += seconds


def slowly(reply: bytes) -> Step:
    """Give a reply in longer than it takes to connect, and sooner than `command_timeout`."""
    return drip_of(reply, 1.6 * TO_CONNECT)


def drip_of(reply: bytes, seconds: float) -> Step:
    def step(dialogue: Dialogue) -> None:
        for octet in reply:
            drip(bytes([octet]), times=1, interval=seconds / len(reply))(dialogue)

    return step


def await_words(connection: Connection) -> None:
    """Wait until the server's next words, or its end, have come to the kernel or to us."""
    assert connection._client is not None
    assert connection._client._replies is not None
    reader, poll = connection._client._replies, select.poll()
    poll.register(reader.sock, select.POLLIN)
    wait_until(lambda: reader.pending or poll.poll(0), PATIENCE, "the server's words")


def send_over(
    server: ScriptedServer,
    begin: Callable[[Connection], object] | None = None,
    **bounds: float,
) -> tuple[Verdict, Connection]:
    """Use a session, let it rest, and send an email; return its verdict."""
    clock = Clock()
    connection = Connection(server.settings(**(BOUNDS | bounds)), clock=clock)
    if begin is None:
        assert connection.send(FIRST, CONTENT, lease_held).verdict is Verdict.SENT
    else:
        begin(connection)
    clock.rest()
    return connection.send(SECOND, CONTENT, lease_held).verdict, connection


@pytest.mark.parametrize(
    "kept",
    [(*ONE_MAIL, stall), (*GROUP, content("250 ok"), stall)],
    ids=["alone", "as a group"],
)
def test_an_email_waits_for_no_answer_that_never_comes(kept: Script) -> None:
    with ScriptedServer(kept) as server:
        verdict, connection = send_over(server)
        connection.close()
    assert verdict is Verdict.SENT
    assert [dialogue.bodies for dialogue in server.dialogues] == [[ON_WIRE], [ON_WIRE]]


def test_a_session_that_only_a_probe_has_used_is_left_as_well() -> None:
    with ScriptedServer((*HELLO, stall)) as server:
        verdict, connection = send_over(server, lambda connection: connection.connect())
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.SENT, 2)


def test_a_slow_server_has_the_time_of_a_command_on_the_new_session() -> None:
    slow: Script = (*HELLO, expect("MAIL", None), slowly(b"250 ok\r\n"), RCPT, DATA)
    with ScriptedServer(
        (*ONE_MAIL, expect("MAIL", None), slowly(b"250 ok\r\n"), stall),
        (*slow, content("250 slow"), serve),
    ) as server:
        verdict, connection = send_over(server)
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.SENT, 2)


def test_behind_mails_reply_each_command_has_its_own_time() -> None:
    late: Script = (MAIL, expect("RCPT", None), slowly(b"250 ok\r\n"), DATA, content("250 ok"))
    with ScriptedServer((*ONE_MAIL, *late, serve)) as server:
        verdict, connection = send_over(server)
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.SENT, 1)


def test_where_the_new_session_is_silent_too_it_ends_there() -> None:
    silent: Script = (*HELLO, stall)
    with ScriptedServer((*ONE_MAIL, stall), silent) as server:
        verdict, connection = send_over(server, command_timeout=2 * TO_CONNECT)
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.UNSENT, 2)


def test_an_email_that_others_wait_behind_goes_over_a_new_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server is not to blame before a new session has told so."""
    monkeypatch.setattr(reply_reader, "LOOK", 0.05)
    with ScriptedServer((*ONE_MAIL, stall)) as server:

        def begin(connection: Connection) -> None:
            connection.send(FIRST, CONTENT, lease_held)
            connection.report(lambda: None, lambda: len(server.dialogues) > 1)

        verdict, connection = send_over(server, begin)
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.SENT, 2)


@pytest.mark.parametrize("replies", ["", GOOD], ids=["no reply came", "its replies came"])
def test_an_announced_emails_content_leaves_over_a_new_session(replies: str) -> None:
    """Else it would be in doubt: nothing can be asked any more once the server awaits a content."""
    first = f"250 first\n{replies}".rstrip()
    announced = (*GROUP, content(None), *ENVELOPE, say(first), content("250 never"))
    with ScriptedServer(announced) as server:

        def begin(connection: Connection) -> None:
            sent = connection.send(FIRST, CONTENT, lease_held, SECOND)
            assert sent.verdict is Verdict.SENT
            if replies:
                await_words(connection)

        verdict, connection = send_over(server, begin)
        connection.close()
        assert server.dialogues[0].over.wait(PATIENCE)
    assert verdict is Verdict.SENT
    assert [dialogue.bodies for dialogue in server.dialogues] == [[ON_WIRE], [ON_WIRE]]
    assert server.dialogues[0].torn == b""


def test_the_next_email_does_not_wait_for_the_goodbye_of_an_old_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "QUIT_SECONDS", 3600.0)
    replaced: list[bool] = []

    def is_replaced(_: Dialogue) -> None:
        wait_until(lambda: len(server.dialogues) > 1, PATIENCE / 2, "the new session")
        replaced.append(True)

    old: Script = (*ONE_MAIL, expect("QUIT", None), is_replaced)
    with ScriptedServer(old) as server:
        clock = Clock()
        connection = Connection(
            server.settings(connection_seconds=RESTED, command_timeout=3600.0), clock=clock
        )
        for _ in range(2):
            assert connection.send(FIRST, CONTENT, lease_held).verdict is Verdict.SENT
            clock.rest()
        connection.close()
    assert replaced
    assert [server.verbs(number)[-1] for number in range(2)] == ["QUIT"] * 2


def wait_for(event: Event) -> None:
    assert event.wait(PATIENCE)


EACH_WAY = pytest.mark.parametrize(
    "one_mail", [ONE_MAIL, (*GROUP, content("250 ok"))], ids=["alone", "as a group"]
)


@EACH_WAY
@pytest.mark.parametrize("end", [close, stall], ids=["closed", "open"])
@pytest.mark.parametrize("words", [SES, EXCHANGE, "421 4.4.2 idle", "554 5.4.7 idle", "250 what"])
def test_the_last_words_of_a_session_are_no_reply_to_the_next_email(
    words: str, end: Step, one_mail: Script
) -> None:
    taken, clock = Event(), Clock()
    with ScriptedServer((*one_mail, lambda _: wait_for(taken), say(words), end)) as server:
        connection = Connection(server.settings(), clock=clock)
        assert connection.send(FIRST, CONTENT, lease_held).verdict is Verdict.SENT
        taken.set()
        await_words(connection)
        clock.rest(RESTED / 5)
        verdict = connection.send(SECOND, CONTENT, lease_held).verdict
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.SENT, 2)


@EACH_WAY
@pytest.mark.parametrize("words", [SES, EXCHANGE, SYSTEM, THROTTLED])
def test_last_words_that_cross_the_next_email_on_the_way_are_no_reply_to_it(
    words: str, one_mail: Script
) -> None:
    with ScriptedServer((*one_mail, expect("MAIL", words), close)) as server:
        verdict, connection = send_over(server)
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.SENT, 2)


@pytest.mark.parametrize("pipelining", [False, True], ids=["alone", "as a group"])
def test_an_email_that_a_rested_session_puts_off_is_put_off_where_the_session_goes_on(
    pipelining: bool,
) -> None:
    put_off: Script = (*ONE_MAIL, expect("MAIL", SES))
    if pipelining:
        rest = (expect("RCPT", "503 5.5.1 no"), expect("DATA", "503 5.5.1 no"))
        put_off = (*GROUP, content("250 ok"), expect("MAIL", SES), *rest)
    with ScriptedServer((*put_off, serve)) as server:
        verdict, connection = send_over(server)
        third = connection.send(SECOND, CONTENT, lease_held).verdict
        connection.close()
    assert (verdict, third, len(server.dialogues)) == (Verdict.RETRY, Verdict.SENT, 1)


def test_where_the_new_session_ends_on_the_email_too_it_is_put_off() -> None:
    hangs_up = (expect("MAIL", SES), close)
    with ScriptedServer((*ONE_MAIL, *hangs_up), (*HELLO, *hangs_up)) as server:
        verdict, connection = send_over(server)
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.RETRY, 2)


@EACH_WAY
@OF_SERVER
def test_words_that_suspect_the_server_still_do_where_the_session_goes_on(
    words: str, one_mail: Script
) -> None:
    with ScriptedServer((*one_mail, expect("MAIL", words), serve)) as server:
        verdict, connection = send_over(server)
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.SUSPECT, 1)


@OF_SERVER
def test_words_that_suspect_the_server_still_do_on_the_new_session(words: str) -> None:
    hangs_up = (expect("MAIL", words), close)
    with ScriptedServer((*ONE_MAIL, *hangs_up), (*HELLO, *hangs_up)) as server:
        verdict, connection = send_over(server)
        connection.close()
    assert (verdict, len(server.dialogues)) == (Verdict.SUSPECT, 2)
