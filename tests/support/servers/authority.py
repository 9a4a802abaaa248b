"""A certificate authority of the tests' own, and servers that it vouches for."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Authority:
    """A CA of our own and a server that it vouches for."""

    ca_file: str
    server: ssl.SSLContext
    misnamed: ssl.SSLContext  # vouched for, but for another host
    expired: ssl.SSLContext  # vouched for until an hour ago

    @property
    def trusted(self) -> dict[str, object]:
        """The server settings that trust it."""
        return {"tls_ca_file": self.ca_file}


def found(folder: Path) -> Authority:
    """Make a new authority that keeps its files in `folder`."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("our CA", ca_key, None, ca_key)
    ca_file = folder / "ca.pem"
    ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    return Authority(
        ca_file=str(ca_file),
        server=_server_context(folder / "server.pem", "127.0.0.1", ca, ca_key),
        misnamed=_server_context(folder / "misnamed.pem", "127.0.0.2", ca, ca_key),
        expired=_server_context(folder / "expired.pem", "127.0.0.1", ca, ca_key, days=-1 / 24),
    )


def _server_context(
    file: Path,
    address: str,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    days: float = 1.0,
) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(address, key, ca, ca_key, days)
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
    days: float = 1.0,
) -> x509.Certificate:
    """Make a certificate, of a CA where no `ca` is given, that strict verifiers accept.

    `days` are those for which it is still valid.
    """
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
        .not_valid_after(now + datetime.timedelta(days=days))
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
