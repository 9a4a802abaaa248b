"""TLS: verified or not at all, and what a torn write leaves known under it."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from outbox.domain.verdict import Phase, Transaction, Verdict
from outbox.smtp.connection import Connection
from tests.servers.scripted import (
    DATA,
    GOOD,
    GREET,
    MAIL,
    RCPT,
    Script,
    ScriptedServer,
    close,
    content,
    envelope,
    expect,
    handshake,
    lease_held,
    say,
    serve,
    server_settings,
    take,
)

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
HUGE = b"Subject: x\r\n\r\n" + b"x" * 32 * 2**20 + b"\r\n"
PLAIN = base64.b64encode(b"\0shop\0secret").decode()
LOGIN = {"username": "shop", "password": "secret"}


@dataclass(frozen=True)
class Authority:
    """A CA of our own and a server that it vouches for."""

    ca_file: str
    server: ssl.SSLContext
    misnamed: ssl.SSLContext  # vouched for, but for another host

    @property
    def trusted(self) -> dict[str, object]:
        return {"tls_ca_file": self.ca_file}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("ca")
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("our CA", ca_key, None, ca_key)
    ca_file = folder / "ca.pem"
    ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    return Authority(
        ca_file=str(ca_file),
        server=_server_context(folder / "server.pem", "127.0.0.1", ca, ca_key),
        misnamed=_server_context(folder / "misnamed.pem", "127.0.0.2", ca, ca_key),
    )


def _server_context(
    file: Path, address: str, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey
) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(address, key, ca, ca_key)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate | None,
    ca_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """Make a certificate, of a CA where no `ca` is given, that strict verifiers accept."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    is_ca = ca is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if ca is None else ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_ca,
                key_cert_sign=is_ca,
                crl_sign=is_ca,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if not is_ca:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(ca_key, hashes.SHA256())


def ehlo(*extensions: str) -> Script:
    """Return the step that answers EHLO with these extensions."""
    lines = ["scripted.example", *extensions]
    marks = ["-"] * (len(lines) - 1) + [" "]
    reply = "\n".join(f"250{mark}{line}" for mark, line in zip(marks, lines, strict=True))
    return (expect("EHLO", reply),)


OFFERS_TLS: Script = (GREET, *ehlo("STARTTLS"))


def send(server: ScriptedServer, body: bytes = CONTENT, /, **changes: object) -> Transaction:
    connection = Connection(server_settings(server.port, **changes))
    result = connection.send(envelope(), body, lease_held)
    connection.close()
    return result


def test_starttls_says_ehlo_again_and_the_mail_goes_encrypted(authority: Authority) -> None:
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
@pytest.mark.parametrize("fault", ["unknown authority", "other name"])
def test_a_certificate_that_does_not_verify_is_a_halt(
    authority: Authority, security: str, fault: str
) -> None:
    other_name = fault == "other name"
    context = authority.misnamed if other_name else authority.server
    starttls = (*OFFERS_TLS, expect("STARTTLS", "220 go"), handshake(context))
    implicit = security == "tls"
    script, tls = (GOOD, context) if implicit else (starttls, None)
    trusted = authority.trusted if other_name else {}
    with ScriptedServer(script, tls=tls) as server:
        result = send(server, security=security, **trusted)

    assert result.verdict is Verdict.HALT
    assert result.phase is (Phase.CONNECT if implicit else Phase.STARTTLS)
    assert "CERTIFICATE_VERIFY_FAILED" in result.reply.text
    assert server.verbs(0) == ([] if implicit else ["EHLO", "STARTTLS"])


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_certificate_is_not_verified_where_the_user_says_so(
    authority: Authority, security: str
) -> None:
    starttls = (*OFFERS_TLS, expect("STARTTLS", "220 go"), handshake(authority.misnamed))
    script = GOOD if security == "tls" else (*starttls, *ehlo(), serve)
    tls = authority.misnamed if security == "tls" else None
    with ScriptedServer(script, tls=tls) as server:
        assert send(server, security=security, tls_verify=False).verdict is Verdict.SENT


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
def test_without_starttls_no_mail_goes_in_clear(script: Script) -> None:
    with ScriptedServer(script) as server:
        result = send(server, security="starttls")

    assert (result.verdict, result.phase) == (Verdict.HALT, Phase.STARTTLS)
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
