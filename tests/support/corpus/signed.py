"""Messages that an app signs before it hands them over: DKIM, S/MIME and PGP/MIME."""

from __future__ import annotations

import base64
import datetime
import email
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from email.policy import Policy, compat32, default
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dkim
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs7

from tests.support.corpus.meant import Meant
from tests.support.corpus.texts import GERMAN
from tests.support.servers import gpg

HEAD = b"From: shop@shop.example\r\nTo: reader@x.example\r\nSubject: Your order\r\n"
_QUOTED = (
    b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe\r\n=2E\r\n"
)
_EIGHT_BITS = (
    "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
    "Content-Transfer-Encoding: 8bit\r\n\r\n" + GERMAN.replace("\n", "\r\n")
).encode()
_OPAQUE = (
    b"MIME-Version: 1.0\r\nContent-Type: application/pkcs7-mime; smime-type=signed-data;\r\n"
    b' name="smime.p7m"\r\nContent-Disposition: attachment; filename="smime.p7m"\r\n'
    b"Content-Transfer-Encoding: base64\r\n\r\n"
)
_LONG = (
    b"References: " + b"<a.17@x.example> " * 12 + b"<b@x.example>\r\nMIME-Version: 1.0\r\n\r\nx\r\n"
)
_ODD = (
    b"MIME-Version: 1.0\r\nIn-Reply-To: <a.17@x.example> \t\r\n   <b@x.example>\r\n\r\n"
    b".\r\nFrom me\r\nend  \r\n\r\n"
)


@cache
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def certificate() -> x509.Certificate:
    """Return one that the shop gave itself."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.EMAIL_ADDRESS, "shop@shop.example")])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key().public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key(), hashes.SHA256())
    )


def _dkim(
    content: bytes, canonicalize: tuple[bytes, bytes], parser: Policy[Any] = compat32
) -> Callable[[], Message[Any, Any]]:
    def write() -> Message[Any, Any]:
        secret = key().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        message = HEAD + content
        signature: bytes = dkim.sign(
            message, b"s1", b"shop.example", secret, canonicalize=canonicalize
        )
        return email.message_from_bytes(signature + message, policy=parser)

    return write


def _smime(text: str, *, detached: bool = True) -> Callable[[], Message[Any, Any]]:
    def write() -> Message[Any, Any]:
        part = f"Content-Type: text/plain; charset=utf-8\r\n\r\n{text}".encode()
        builder = pkcs7.PKCS7SignatureBuilder().set_data(part)
        builder = builder.add_signer(certificate(), key(), hashes.SHA256())
        options = [pkcs7.PKCS7Options.Binary]
        if detached:
            options.append(pkcs7.PKCS7Options.DetachedSignature)
            signed = builder.sign(serialization.Encoding.SMIME, options)
        else:
            octets = builder.sign(serialization.Encoding.DER, options)
            signed = _OPAQUE + base64.encodebytes(octets).replace(b"\n", b"\r\n")
        return email.message_from_bytes(HEAD + signed)

    return write


def _pgp(part: bytes) -> Callable[[], Message[Any, Any]]:
    def write() -> Message[Any, Any]:
        signature = gpg.sign(part)
        kind = 'multipart/signed; micalg="pgp-sha512";'
        head = (
            f'MIME-Version: 1.0\r\nContent-Type: {kind}\r\n protocol="application/pgp-signature";'
        )
        seal = (
            b'\r\n--b\r\nContent-Type: application/pgp-signature; name="signature.asc"\r\n'
            b'Content-Disposition: attachment; filename="signature.asc"\r\n\r\n'
        )
        data = head.encode() + b" boundary=b\r\n\r\n--b\r\n" + part + seal + signature
        return email.message_from_bytes(HEAD + data + b"\r\n--b--\r\n")

    return write


_RELAXED, _SIMPLE = (b"relaxed", b"relaxed"), (b"simple", b"simple")
_PART = (
    "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    "Grüße \r\n.\r\n"
).encode()
_PART_QUOTED = (
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n"
    b"\r\nGr=C3=BC=C3=9Fe=20\r\n=2E\r\n=46rom me\r\n"
)

SIGNED: dict[str, Meant] = {
    "DKIM, relaxed": Meant(text="Grüße\n.\n", by_hand=_dkim(_QUOTED, _RELAXED)),
    "DKIM, simple": Meant(text="Grüße\n.\n", by_hand=_dkim(_QUOTED, _SIMPLE)),
    "DKIM over odd blanks": Meant(text=".\nFrom me\nend  \n", by_hand=_dkim(_ODD, _SIMPLE)),
    "DKIM over a header of 200 characters": Meant(
        text="x\n", by_hand=_dkim(_LONG, _SIMPLE, default)
    ),
    "DKIM over eight bits": Meant(text=GERMAN, by_hand=_dkim(_EIGHT_BITS, _SIMPLE)),
    "S/MIME": Meant(
        text="Thank you.\n.\nFrom me\n",
        by_hand=_smime("Thank you.\r\n.\r\nFrom me\r\n"),
    ),
    "S/MIME over eight bits": Meant(
        text=GERMAN,
        by_hand=_smime(GERMAN.replace("\n", "\r\n")),
    ),
    "S/MIME, opaque": Meant(by_hand=_smime("Grüße\r\n", detached=False)),
    "PGP/MIME": Meant(text="Grüße \n.\nFrom me\n", by_hand=_pgp(_PART_QUOTED)),
    "PGP/MIME over eight bits": Meant(text="Grüße \n.\n", by_hand=_pgp(_PART)),
}
"""Every one of them is to verify after it was delivered."""


def verifies(name: str, message: bytes) -> bool:
    """Tell whether a delivered message, with CRLF, has a signature of ours that holds."""
    if name.startswith("DKIM"):
        return bool(dkim.verify(message, dnsfunc=_dns))
    if name.startswith("PGP"):
        _, part, signature = message.split(b"--b\r\n")
        return gpg.verifies(
            part.removesuffix(b"\r\n"), signature.partition(b"\r\n\r\n")[2].partition(b"--b--")[0]
        )
    with _files(message, certificate().public_bytes(serialization.Encoding.PEM)) as (mail, ca):
        command: list[str | Path] = ["openssl", "cms", "-verify", "-purpose", "any"]
        command += ["-in", mail, "-CAfile", ca]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _dns(name: bytes, timeout: int = 5) -> bytes:
    assert name == b"s1._domainkey.shop.example."
    public = (
        key()
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return b"v=DKIM1; k=rsa; p=" + base64.b64encode(public)


@contextmanager
def _files(*contents: bytes) -> Iterator[list[Path]]:
    with TemporaryDirectory(prefix="outbox-signed-") as folder:
        paths = [Path(folder, str(number)) for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        yield paths
