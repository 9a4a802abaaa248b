"""A reply to a content that nobody waits for on the spot: nothing of it is lost meanwhile."""

from __future__ import annotations

import select
import socket
import ssl
import threading

import pytest

from outbox.domain.delivery.transaction import Phase, Transaction, Verdict
from outbox.smtp import body, reply_reader
from outbox.smtp.connection import Connection
from outbox.smtp.no_reply_yet import NoReplyYet
from tests.support.servers.authority import Authority
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import (
    AT_DOT,
    DATA,
    GREET,
    MAIL,
    RCPT,
    Script,
    ScriptedServer,
    content,
    drip,
    expect,
    freeze,
    say,
    serve,
)
from tests.support.waiting import wait_until

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
HUGE = b"Subject: x\r\n\r\n" + b"x" * 32 * 2**20 + b"\r\n"
SECONDS = 10.0


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_reader, "LOOK", 0.05)
    monkeypatch.setattr(body, "LOOK", 0.05)


class Held:
    """Holds a server's dialogue until the test lets it go on."""

    def __init__(self) -> None:
        self._goes_on = threading.Event()

    def __call__(self, _: Dialogue) -> None:
        assert self._goes_on.wait(SECONDS)

    def release(self) -> None:
        self._goes_on.set()


def unanswered(connection: Connection) -> NoReplyYet:
    connection.report(lambda: None, lambda: True, lambda: False)
    with pytest.raises(NoReplyYet) as raised:
        connection.send(envelope(), CONTENT, lease_held)
    return raised.value


def in_another_thread(later: NoReplyYet) -> Transaction:
    results: list[Transaction] = []

    def wait() -> None:
        results.append(later.wait())
        later.end()

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(SECONDS)
    (result,) = results
    return result


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("250 2.0.0 queued", Verdict.SENT),
        ("451 4.3.0 later", Verdict.RETRY),
        ("550 5.7.1 no", Verdict.FAIL),
    ],
)
def test_it_is_read_in_another_thread_while_the_connection_sends_anew(
    reply: str, verdict: Verdict
) -> None:
    held = Held()
    said = drip(f"{reply}\r\n".encode(), times=1)
    slow: Script = (*AT_DOT, content(None), held, said, serve)
    with ScriptedServer(slow) as server:
        connection = Connection(server.settings())
        later = unanswered(connection)
        connection.report(lambda: None, lambda: True)
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        held.release()
        result = in_another_thread(later)
        connection.close()

    assert (result.verdict, result.phase) == (verdict, Phase.DOT)
    assert server.verbs(0)[-1] == server.verbs(1)[-1] == "QUIT"


def test_the_lines_that_came_before_are_a_part_of_it() -> None:
    held = Held()
    lines = b"250-2.0.0 first\r\n250-2.0.0 second\r\n250-2.0.0 thi"
    script: Script = (
        *AT_DOT,
        content(None),
        drip(lines, times=1),
        held,
        drip(b"rd\r\n250 2.0.0 last\r\n", times=1),
    )
    with ScriptedServer(script) as server:
        later = unanswered(Connection(server.settings()))
        held.release()
        result = in_another_thread(later)

    assert result.verdict is Verdict.SENT
    assert result.reply.text == "first second third last"


def test_it_is_waited_for_no_longer_than_it_may_take_in_all() -> None:
    now = 0.0
    held = Held()
    with ScriptedServer((*AT_DOT, content(None), held)) as server:
        connection = Connection(server.settings(dot_timeout=100.0), clock=lambda: now)
        later = unanswered(connection)
        now = 100.1
        result = in_another_thread(later)
        held.release()

    assert (result.verdict, result.phase) == (Verdict.UNKNOWN, Phase.DOT)


@pytest.mark.parametrize("stays", [True, False], ids=["waits on", "left to a thread"])
def test_it_counts_where_the_look_for_other_emails_outlasts_its_time(stays: bool) -> None:
    """As where that look asks a database that has vanished."""
    now = 0.0
    held = Held()
    with ScriptedServer((*AT_DOT, content(None), held, say("250 2.0.0 queued"), serve)) as server:
        connection = Connection(server.settings(dot_timeout=100.0), clock=lambda: now)

        def looks() -> bool:
            nonlocal now
            client, poll = connection._client, select.poll()
            assert client is not None
            assert client.sock is not None
            poll.register(client.sock, select.POLLIN)
            held.release()
            wait_until(lambda: poll.poll(0), SECONDS, "the reply")
            now += 100.1
            return stays

        connection.report(lambda: None, lambda: True, looks)
        try:
            result = connection.send(envelope(), CONTENT, lease_held)
        except NoReplyYet as later:
            result = in_another_thread(later)
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.SENT, Phase.DOT)


def test_a_server_that_hangs_up_meanwhile_leaves_a_doubt() -> None:
    with ScriptedServer((*AT_DOT, content(None), held := Held())) as server:
        later = unanswered(Connection(server.settings()))
        held.release()
        result = in_another_thread(later)

    assert (result.verdict, result.phase) == (Verdict.UNKNOWN, Phase.DOT)


@pytest.mark.parametrize("security", ["none", "tls"])
def test_a_server_that_reads_no_more_is_left_where_other_emails_wait(
    authority: Authority, security: str
) -> None:
    is_still = threading.Event()

    def be_still(dialogue: Dialogue) -> None:
        is_still.set()
        freeze(dialogue)

    no_size: Script = (GREET, expect("EHLO", "250 scripted.example"), MAIL, RCPT, DATA, be_still)
    tls = authority.server if security == "tls" else None
    with ScriptedServer(no_size, tls=tls) as server:
        settings = server.settings(security=security, command_timeout=60.0, **authority.trusted)
        connection = Connection(settings)
        connection.report(lambda: None, lambda: not is_still.is_set())
        result = connection.send(envelope(), HUGE, lease_held)
        connection.close()

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.BODY)
    assert result.wait_given_up is True


def test_under_tls_a_server_that_pauses_gets_the_whole_content(authority: Authority) -> None:
    """A write that has timed out goes on: no octet is missing, and none comes twice."""
    lines = b"".join(b"%07d\r\n" % number for number in range(50_000))
    wire, came, looks, reads = body.stuffed(lines), bytearray(), list[int](), threading.Event()
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    def read_all() -> None:
        with authority.server.wrap_socket(theirs, server_side=True) as server:
            assert reads.wait(SECONDS)
            while len(came) < len(wire) and (more := server.recv(65_536)):
                came.extend(more)

    def goes_on() -> bool:
        looks.append(len(looks))
        if len(looks) == 3:
            reads.set()
        return True

    reader = threading.Thread(target=read_all)
    reader.start()
    context = ssl.create_default_context(cafile=authority.ca_file)
    with context.wrap_socket(ours, server_hostname="127.0.0.1") as client:
        body.write_body(client, wire, b"", lambda: True, SECONDS, goes_on=goes_on)
        reader.join(SECONDS)
    assert len(looks) >= 3
    assert bytes(came) == wire


def test_a_small_content_that_the_kernel_does_not_take_at_once_has_all_its_time() -> None:
    """As with a small buffer for sending, and a server that pauses."""
    wire, came, looks = body.stuffed(b"x" * 60_000), bytearray(), list[int]()
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    def read_all() -> None:
        while len(came) < len(wire):
            came.extend(theirs.recv(65_536))

    reader = threading.Thread(target=read_all)

    def goes_on() -> bool:
        looks.append(len(looks))
        if len(looks) == 3:
            reader.start()
        return True

    with ours, theirs:
        body.write_body(ours, wire, b"", lambda: True, SECONDS, goes_on=goes_on)
        reader.join(SECONDS)
    assert bytes(came) == wire
