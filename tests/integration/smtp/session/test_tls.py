"""TLS: verified or not at all, and what a torn write leaves known under it."""

from __future__ import annotations

import base64
import shutil
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from outbox.domain.delivery.transaction import Phase, Transaction, Verdict
from outbox.smtp.connection import Connection
from outbox.smtp.tls import current_context
from tests.support.servers.authority import Authority, found
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.scripted import (
    DATA,
    GOOD,
    GREET,
    MAIL,
    RCPT,
    Script,
    ScriptedServer,
    close,
    content,
    expect,
    handshake,
    say,
    serve,
    stall,
    take,
)

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
HUGE = b"Subject: x\r\n\r\n" + b"x" * 32 * 2**20 + b"\r\n"
PLAIN = base64.b64encode(b"\0shop\0secret").decode()
LOGIN = {"username": "shop", "password": "secret"}


def ehlo(*extensions: str) -> Script:
    """Return the step that answers EHLO with these extensions."""
    lines = ["scripted.example", *extensions]
    marks = ["-"] * (len(lines) - 1) + [" "]
    reply = "\n".join(f"250{mark}{line}" for mark, line in zip(marks, lines, strict=True))
    return (expect("EHLO", reply),)


OFFERS_TLS: Script = (GREET, *ehlo("STARTTLS"))


def send(server: ScriptedServer, body: bytes = CONTENT, /, **changes: object) -> Transaction:
    connection = Connection(server.settings(**changes))
    result = connection.send(envelope(), body, lease_held)
    connection.close()
    return result


def test_starttls_says_ehlo_again_and_the_email_goes_encrypted(authority: Authority) -> None:
    script = (*OFFERS_TLS, expect("STARTTLS", "220 go"), handshake(authority.server))
    with ScriptedServer((*script, *ehlo("SIZE 0"), serve)) as server:
        result = send(server, security="starttls", **authority.trusted)

    assert result.verdict is Verdict.SENT
    assert server.verbs(0) == ["EHLO", "STARTTLS", "EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
    assert isinstance(server.dialogues[0].sock, ssl.SSLSocket)
    assert server.dialogues[0].lines[3].endswith("SIZE=21")


def test_implicit_tls_speaks_nothing_in_clear(authority: Authority) -> None:
    with ScriptedServer(GOOD, tls=authority.server) as server:
        result = send(server, security="tls", **authority.trusted)

    assert result.verdict is Verdict.SENT
    assert server.bodies == [CONTENT + b".\r\n"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize(
    ("certificate", "is_trusted", "told"),
    [
        ("server", False, "unable to get local issuer certificate"),
        ("misnamed", True, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
        ("expired", True, "certificate has expired"),
    ],
)
def test_a_certificate_that_does_not_verify_is_a_halt_with_an_alert(
    authority: Authority, security: str, certificate: str, is_trusted: bool, told: str
) -> None:
    context = getattr(authority, certificate)
    starttls = (*OFFERS_TLS, expect("STARTTLS", "220 go"), handshake(context))
    implicit = security == "tls"
    script, tls = (GOOD, context) if implicit else (starttls, None)
    trusted = authority.trusted if is_trusted else {}
    with ScriptedServer(script, tls=tls) as server:
        result = send(server, security=security, **trusted)

    assert (result.verdict, result.alert) == (Verdict.HALT, True)
    assert result.phase is (Phase.CONNECT if implicit else Phase.STARTTLS)
    assert result.reply.text == f"the server's certificate does not verify: {told}"
    assert server.verbs(0) == ([] if implicit else ["EHLO", "STARTTLS"])


@pytest.mark.parametrize("bundle", ["our own", "the system's"])
@pytest.mark.parametrize("way", ["written anew", "replaced", "linked anew"])
def test_a_new_ca_bundle_is_read_by_the_next_session(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: str, way: str
) -> None:
    """A process runs for months. A mounted secret's file is a link to the one of the day."""
    old, new, used = found(tmp_path).ca_file, authority.ca_file, tmp_path / "bundle.pem"
    if bundle == "our own":
        trusted: dict[str, object] = {"tls_ca_file": str(used)}
    else:
        trusted = {}
        monkeypatch.setenv("SSL_CERT_FILE", str(used))
    used.symlink_to(old) if way == "linked anew" else shutil.copy(old, used)
    with ScriptedServer(GOOD, tls=authority.server) as server:
        connection = Connection(server.settings(security="tls", **trusted))
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.HALT
        if way == "written anew":
            shutil.copy(new, used)
        else:
            other = tmp_path / "other.pem"
            other.symlink_to(new) if way == "linked anew" else shutil.copy(new, other)
            other.replace(used)
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        connection.close()


def test_a_ca_bundle_is_read_once_while_it_stays_as_it_is(authority: Authority) -> None:
    contexts = {current_context(file, True) for file in (authority.ca_file, "") for _ in range(3)}
    assert len(contexts) == 2


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_certificate_is_not_verified_where_the_user_says_so(
    authority: Authority, security: str
) -> None:
    starttls = (*OFFERS_TLS, expect("STARTTLS", "220 go"), handshake(authority.misnamed))
    script = GOOD if security == "tls" else (*starttls, *ehlo(), serve)
    tls = authority.misnamed if security == "tls" else None
    with ScriptedServer(script, tls=tls) as server:
        assert send(server, security=security, tls_verify=False).verdict is Verdict.SENT


def test_a_server_that_hangs_in_the_handshake_has_the_time_to_connect() -> None:
    """Each process that opens a session would else wait for `OUTBOX_COMMAND_TIMEOUT`."""
    with ScriptedServer((*OFFERS_TLS, expect("STARTTLS", "220 go"), stall)) as server:
        result = send(server, security="starttls", connect_timeout=0.2, command_timeout=3600.0)
    assert (result.verdict, result.phase) == (Verdict.HALT, Phase.STARTTLS)


def test_a_handshake_has_the_whole_time_to_connect_whatever_address_it_is_with(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address has only its share of that time, and no other one is tried behind it."""
    waits: list[float | None] = []
    wrap = ssl.SSLContext.wrap_socket

    def noted(context: ssl.SSLContext, sock: socket.socket, **how: Any) -> ssl.SSLSocket:
        if not how.get("server_side"):
            waits.append(sock.gettimeout())
        return wrap(context, sock, **how)

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", noted)
    with ScriptedServer(GOOD, tls=authority.server) as server:
        address = ("127.0.0.1", server.port)
        found = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)] * 8
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        result = send(server, security="tls", connect_timeout=4.0, **authority.trusted)
    assert (result.verdict, waits) == (Verdict.SENT, [4.0])


def test_behind_the_handshake_each_reply_has_its_own_time(authority: Authority) -> None:
    script = (*OFFERS_TLS, expect("STARTTLS", "220 go"), handshake(authority.server))
    with ScriptedServer((*script, *ehlo("SIZE 0"), serve)) as server:
        settings = server.settings(security="starttls", connect_timeout=7.0, **authority.trusted)
        connection = Connection(settings)
        assert connection.send(envelope(), CONTENT, lease_held).verdict is Verdict.SENT
        assert connection._client is not None
        assert connection._client.sock is not None
        assert connection._client.sock.gettimeout() == settings.command_timeout != 7.0
        connection.close()


@pytest.mark.parametrize(
    "script",
    [
        (GREET, *ehlo("SIZE 1000")),
        (GREET, expect("EHLO", "502 what"), expect("HELO", "250 hi")),
        (*OFFERS_TLS, expect("STARTTLS", "454 not now")),
        (*OFFERS_TLS, expect("STARTTLS", "501 no")),
        (*OFFERS_TLS, expect("STARTTLS", "220 go"), say("this is no handshake")),
        (*OFFERS_TLS, expect("STARTTLS", "220 go"), close),
    ],
    ids=["not offered", "only HELO", "454", "501", "no handshake", "closed"],
)
def test_without_starttls_no_email_goes_in_clear(script: Script) -> None:
    with ScriptedServer(script) as server:
        result = send(server, security="starttls")

    assert (result.verdict, result.phase, result.alert) == (Verdict.HALT, Phase.STARTTLS, False)
    assert not {"MAIL", "AUTH"} & set(server.verbs(0))


def test_octets_in_clear_before_the_handshake_are_refused(authority: Authority) -> None:
    injected = expect("STARTTLS", "220 go\n250-injected\n250 AUTH PLAIN")
    script = (*OFFERS_TLS, injected, handshake(authority.server), *ehlo(), serve)
    with ScriptedServer(script) as server:
        result = send(server, security="starttls", **authority.trusted)

    assert (result.verdict, result.phase) == (Verdict.HALT, Phase.STARTTLS)
    assert server.verbs(0) == ["EHLO", "STARTTLS"]


@pytest.mark.parametrize(
    ("replies", "verdict", "alert", "kept"),
    [
        ((f"AUTH PLAIN {PLAIN}", "235 welcome"), Verdict.SENT, False, Phase.DOT),
        ((f"AUTH PLAIN {PLAIN}", "535 5.7.8 wrong"), Verdict.HALT, True, Phase.AUTH),
        ((f"AUTH PLAIN {PLAIN}", "534 too weak"), Verdict.HALT, True, Phase.AUTH),
        ((f"AUTH PLAIN {PLAIN}", "454 4.7.0 later"), Verdict.HALT, False, Phase.AUTH),
        ((f"AUTH PLAIN {PLAIN}", "421 bye"), Verdict.HALT, False, Phase.AUTH),
    ],
)
def test_auth_over_tls_is_judged_by_its_reply(
    authority: Authority, replies: tuple[str, str], verdict: Verdict, alert: bool, kept: Phase
) -> None:
    script = (GREET, *ehlo("AUTH PLAIN"), expect(*replies), serve)
    with ScriptedServer(script, tls=authority.server) as server:
        result = send(server, security="tls", **authority.trusted, **LOGIN)

    assert (result.verdict, result.alert, result.phase) == (verdict, alert, kept)


@pytest.mark.parametrize("extensions", [(), ("AUTH GSSAPI",)])
def test_auth_that_is_not_offered_is_a_halt_with_an_alert(
    authority: Authority, extensions: tuple[str, ...]
) -> None:
    with ScriptedServer((GREET, *ehlo(*extensions)), tls=authority.server) as server:
        result = send(server, security="tls", **authority.trusted, **LOGIN)

    assert (result.verdict, result.phase, result.alert) == (Verdict.HALT, Phase.AUTH, True)


def test_under_tls_an_error_in_the_write_that_holds_the_dot_leaves_doubt(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ssl.SSLSocket.send

    def fails(sock: ssl.SSLSocket, data: bytes, flags: int = 0) -> int:
        if bytes(data).endswith(b"\r\n.\r\n"):
            raise ConnectionResetError("reset")
        return whole(sock, data, flags)

    with ScriptedServer(GOOD, tls=authority.server) as server, monkeypatch.context() as patch:
        patch.setattr(ssl.SSLSocket, "send", fails)
        result = send(server, security="tls", **authority.trusted)

    assert (result.verdict, result.phase) == (Verdict.UNKNOWN, Phase.DOT)


def test_under_tls_a_body_lost_before_its_last_write_is_known_to_be_unsent(
    authority: Authority,
) -> None:
    script = (GREET, *ehlo(), MAIL, RCPT, DATA, take(100_000, close))
    with ScriptedServer(script, tls=authority.server) as server:
        result = send(server, HUGE, security="tls", **authority.trusted)

    assert (result.verdict, result.phase) == (Verdict.UNSENT, Phase.BODY)


def test_under_tls_a_reply_lost_after_the_dot_is_doubt(authority: Authority) -> None:
    script = (GREET, *ehlo(), MAIL, RCPT, DATA, content(None), close)
    with ScriptedServer(script, tls=authority.server) as server:
        result = send(server, security="tls", **authority.trusted)

    assert (result.verdict, result.phase) == (Verdict.UNKNOWN, Phase.DOT)


def test_a_ca_bundle_that_cannot_be_read_is_named_by_its_setting(tmp_path: Path) -> None:
    with ScriptedServer((*OFFERS_TLS, expect("STARTTLS", "220 go"), close)) as server:
        result = send(server, security="starttls", tls_ca_file=str(tmp_path / "none.pem"))

    assert (result.verdict, result.phase) == (Verdict.HALT, Phase.STARTTLS)
    assert "OUTBOX_TLS_CA_FILE cannot be read: FileNotFoundError" in result.reply.text
