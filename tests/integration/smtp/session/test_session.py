"""How a session starts: addresses, names and credentials, and how it does not."""

from __future__ import annotations

import socket
import time

import pytest

from outbox.domain.delivery.transaction import Phase, Transaction, Verdict
from outbox.smtp.connection import Connection
from outbox.smtp.tcp import KEEPALIVE, connect
from tests.support.servers.smtp.client import envelope, lease_held, server_settings
from tests.support.servers.smtp.scripted import (
    GREET,
    Script,
    ScriptedServer,
    close,
    expect,
    serve,
    stall,
)
from tests.support.waiting import wait_until

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
LOGIN = {"username": "shop", "password": "secret"}
TCP = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
NO_FAMILY = 99  # no kernel has it, as one with ipv6.disable=1 has no AF_INET6
OFFERS_AUTH: Script = (GREET, expect("EHLO", "250-scripted.example\n250 AUTH PLAIN"))


def send(server: ScriptedServer, **changes: object) -> Transaction:
    connection = Connection(server.settings(**changes))
    result = connection.send(envelope(), CONTENT, lease_held)
    connection.close()
    return result


def test_credentials_are_not_sent_in_clear_unless_the_user_says_so() -> None:
    offers = OFFERS_AUTH
    with ScriptedServer(offers, (*offers, expect("AUTH", "235 hi"), serve)) as server:
        refused = send(server, **LOGIN)
        allowed = send(server, cleartext_auth=True, **LOGIN)

    assert (refused.verdict, refused.phase, refused.alert) == (Verdict.HALT, Phase.AUTH, True)
    assert server.verbs(0) == ["EHLO"]
    assert allowed.verdict is Verdict.SENT


def test_credentials_that_are_not_ascii_are_a_halt_that_does_not_repeat_them() -> None:
    with ScriptedServer(OFFERS_AUTH) as server:
        result = send(server, cleartext_auth=True, username="shop", password="gehe\xefm")

    assert (result.verdict, result.alert) == (Verdict.HALT, True)
    assert "gehe" not in result.reply.text


def test_a_connection_lost_at_auth_is_a_halt_without_an_alert() -> None:
    script = (*OFFERS_AUTH, expect("AUTH", None), close)
    with ScriptedServer(script) as server:
        result = send(server, cleartext_auth=True, **LOGIN)

    assert (result.verdict, result.phase, result.alert) == (Verdict.HALT, Phase.AUTH, False)


@pytest.mark.parametrize(
    "then",
    [(close,), (expect("AUTH", None), close), (expect("AUTH", "421 bye"), close),
     (expect("AUTH", "454 4.7.0 Too many login attempts"), serve)],
    ids=["at once", "closed", "421", "454"],
)  # fmt: skip
def test_a_refused_password_is_told_where_the_server_does_not_hear_another_mechanism(
    then: Script,
) -> None:
    hello = (GREET, expect("EHLO", "250-scripted.example\n250 AUTH PLAIN LOGIN"))
    with ScriptedServer((*hello, expect("AUTH PLAIN", "535 5.7.8 wrong"), *then)) as server:
        result = send(server, cleartext_auth=True, **LOGIN)

    assert (result.verdict, result.phase, result.alert) == (Verdict.HALT, Phase.AUTH, True)
    assert (result.reply.code, result.reply.enhanced) == (535, "5.7.8")


def test_a_mechanism_that_the_server_does_not_know_is_no_refused_password() -> None:
    hello = (GREET, expect("EHLO", "250-scripted.example\n250 AUTH PLAIN LOGIN"))
    unknown = expect("AUTH PLAIN", "504 5.5.4 unrecognized mechanism")
    put_off = expect("AUTH LOGIN", "454 4.7.0 later")
    with ScriptedServer((*hello, unknown, put_off), (*hello, unknown, close)) as server:
        for code in (454, 0):
            result = send(server, cleartext_auth=True, **LOGIN)
            assert (result.verdict, result.alert, result.reply.code) == (Verdict.HALT, False, code)


def test_a_name_that_does_not_resolve_is_a_halt(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_name(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    connection = Connection(server_settings(25, host="nowhere.invalid"))
    result = connection.send(envelope(), CONTENT, lease_held)

    assert (result.verdict, result.phase) == (Verdict.HALT, Phase.CONNECT)
    assert "not known" in result.reply.text


def test_the_next_address_is_tried_where_the_first_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as gone:
        refusing = ("127.0.0.1", gone.port)
    with ScriptedServer() as server:
        found = [(*TCP, refusing), (*TCP, ("127.0.0.1", server.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert send(server).verdict is Verdict.SENT


def test_the_next_address_is_tried_where_the_first_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As behind a firewall that drops what comes, or over an IPv6 that leads nowhere.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent, ScriptedServer() as server:
        address = ("127.0.0.1", silent.getsockname()[1])
        with socket.create_connection(address):  # the queue is full: each further SYN is dropped
            found = [(*TCP, address), (*TCP, ("127.0.0.1", server.port))]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
            assert send(server, connect_timeout=2.0).verdict is Verdict.SENT


@pytest.mark.parametrize("place", [0, 1])
def test_an_address_of_a_family_that_the_host_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    lacking: tuple[object, ...] = (
        NO_FAMILY,
        socket.SOCK_STREAM,
        socket.IPPROTO_TCP,
        "",
        ("::1", 25, 0, 0),
    )
    with ScriptedServer() as server:
        found: list[tuple[object, ...]] = [(*TCP, ("127.0.0.1", server.port))]
        found.insert(place, lacking)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert send(server).verdict is Verdict.SENT
        gone = server.settings()
    result = Connection(gone).send(envelope(), CONTENT, lease_held)
    assert (result.verdict, result.phase) == (Verdict.HALT, Phase.CONNECT)
    assert "refused" in result.reply.text
    found[:] = [lacking]
    result = Connection(gone).send(envelope(), CONTENT, lease_held)
    assert "family not supported" in result.reply.text


def test_all_addresses_together_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: _time_out())
    connection = Connection(server_settings(25), clock=lambda: float(next(now)))
    result = connection.send(envelope(), CONTENT, lease_held)

    assert (result.verdict, result.phase) == (Verdict.HALT, Phase.CONNECT)
    assert "in time" in result.reply.text


def test_the_addresses_have_their_whole_time_behind_a_slow_look_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    with ScriptedServer() as server:

        def look_up(*_: object, **__: object) -> list[object]:
            nonlocal now
            now += 60.0
            return [(*TCP, ("127.0.0.1", server.port))]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        connection = Connection(server.settings(), clock=lambda: now)
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        connection.close()


def _time_out() -> None:
    raise TimeoutError("timed out")


def test_a_local_name_that_holds_a_second_command_is_a_halt() -> None:
    with ScriptedServer((GREET,)) as server:
        result = send(server, helo_name="x\r\nMAIL FROM:<>")

    assert (result.verdict, result.phase) == (Verdict.HALT, Phase.EHLO)


def test_an_interrupt_while_the_session_starts_leaves_no_open_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(socket, "gethostname", interrupted)
    with ScriptedServer((stall,)) as server:
        with pytest.raises(KeyboardInterrupt):
            send(server, helo_name="")
        wait_until(lambda: server.dialogues, 5, "the connection")
        assert server.dialogues[0].over.wait(5)


def test_without_a_full_name_ehlo_gives_an_address_literal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "web1")
    with ScriptedServer() as server:
        assert send(server, helo_name="").verdict is Verdict.SENT

    assert server.dialogues[0].lines[0] == "ehlo [127.0.0.1]"


def test_a_connection_asks_by_itself_whether_the_server_still_lives() -> None:
    with ScriptedServer((GREET, serve)) as server:
        sock = connect("127.0.0.1", server.port, 5.0, time.monotonic)
        with sock:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for name, value in KEEPALIVE.items():
                assert sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
