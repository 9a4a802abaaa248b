"""A server that says nothing in the TLS handshake is waited for as for a greeting."""

from __future__ import annotations

import socket
import ssl
import threading
from itertools import count

import pytest

from outbox.domain.delivery.transaction import Phase, Verdict
from outbox.smtp import tls
from outbox.smtp.connection import Connection
from tests.integration.smtp.session.test_tls import OFFERS_TLS
from tests.support.greenlets import printed_by
from tests.support.servers.authority import Authority
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import Script, ScriptedServer, expect, stall

SECONDS = 20.0
STARTS: Script = (*OFFERS_TLS, expect("STARTTLS", "220 go"), stall)
SCRIPTS = pytest.mark.parametrize(
    ("security", "phase", "script"),
    [("tls", Phase.CONNECT, (stall,)), ("starttls", Phase.STARTTLS, STARTS)],
    ids=["from the first octet on", "STARTTLS"],
)


@SCRIPTS
def test_it_is_asked_whether_to_wait_on(
    monkeypatch: pytest.MonkeyPatch, security: str, phase: Phase, script: Script
) -> None:
    monkeypatch.setattr(tls, "LOOK", 0.05)
    answers = [False, True, True]
    with ScriptedServer(script) as server:
        connection = Connection(server.settings(security=security, connect_timeout=SECONDS))
        connection.report(lambda: None, answers.pop)
        fault = connection.connect()
    assert fault is not None
    assert (fault.verdict, fault.phase) == (Verdict.HALT, phase)
    assert fault.reply.text == "no reply yet, and other emails wait"
    assert answers == []


@SCRIPTS
def test_its_time_is_over_though_nobody_else_waits(
    monkeypatch: pytest.MonkeyPatch, security: str, phase: Phase, script: Script
) -> None:
    monkeypatch.setattr(tls, "LOOK", 0.05)
    with ScriptedServer(script) as server:
        settings = server.settings(security=security, connect_timeout=0.3, command_timeout=3600.0)
        fault = Connection(settings).connect()
    assert fault is not None
    assert (fault.verdict, fault.phase) == (Verdict.HALT, phase)
    assert "the TLS handshake took longer than OUTBOX_CONNECT_TIMEOUT" in fault.reply.text


_A_LONG_RECORD = b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb\x03\x03"
"""The beginning of a server's first octets: 16 KB are to follow."""

_WITH_GREENLETS = """
from outbox.smtp.connection import Connection
from tests.support.servers.smtp.client import server_settings

print(Connection(server_settings({port}, security="tls", connect_timeout=0.5)).connect().verdict)
"""


def drip(dialogue: Dialogue) -> None:
    """Send an octet each now and then, until the client has gone or the test is over."""
    dialogue.sock.sendall(_A_LONG_RECORD)
    while not dialogue.stopped.wait(0.05):
        dialogue.sock.sendall(b"x")


@pytest.mark.long
def test_octets_that_drip_add_no_time_and_gevent_changes_nothing_in_that() -> None:
    """gevent's own handshake gives each wait for an octet the whole time anew."""
    with ScriptedServer((drip,)) as server:
        assert printed_by(_WITH_GREENLETS.format(port=server.port)) == "halt"


@pytest.mark.parametrize(("step", "is_asked"), [(22.0, False), (0.06, True)])
def test_what_the_process_itself_stood_still_is_not_the_servers_silence(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, step: float, is_asked: bool
) -> None:
    """The clock goes `step` seconds at each look, and the server speaks behind the first wait."""
    monkeypatch.setattr(tls, "LOOK", 0.05)
    ours, theirs = socket.socketpair()
    ours.settimeout(10.0)
    looks, asked, speaks = count(), list[bool](), threading.Event()

    def serve() -> None:
        assert speaks.wait(SECONDS)
        with authority.server.wrap_socket(theirs, server_side=True) as sock:
            sock.sendall(b"220 hello\r\n")

    def clock() -> float:
        if (look := next(looks)) == 2:  # when the first wait is over
            speaks.set()
        return look * step

    def goes_on() -> bool:
        asked.append(True)
        return True

    thread = threading.Thread(target=serve)
    thread.start()
    context = ssl.create_default_context(cafile=authority.ca_file)
    with tls.Handshake(context, goes_on, clock).wrap_socket(ours, "127.0.0.1") as client:
        assert client.gettimeout() == 10.0
        assert client.recv(100) == b"220 hello\r\n"
    thread.join(SECONDS)
    assert bool(asked) is is_asked
