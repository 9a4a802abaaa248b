"""A stored content for a server without 8BITMIME (RFC 6152 §3): the same one, without octets > 127.

Only what a parser had read, or what was enqueued by an older version, still has them.
"""

from __future__ import annotations

import email
from email import policy
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.mime.seven_bit import seven_bit

HEAD = (
    "From: a@b.example\r\nTo: c@d.example\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"
    "X-Folded: one\r\n  two\r\n\tthree\r\nMIME-Version: 1.0\r\n"
)
TEXT = "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
LATIN = "Content-Type: text/html; charset=iso-8859-1\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
MIXED = 'Content-Type: multipart/mixed; boundary="x y"\r\nContent-Transfer-Encoding: 8bit\r\n\r\n'
FORWARDED = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
FILE = "Content-Type: application/x-own\r\nContent-Transfer-Encoding: binary\r\n\r\n"
DKIM = "DKIM-Signature: v=1; d=b.example; h=from; bh=x; b=y\r\n"


def read(data: bytes | None) -> EmailMessage:
    assert data is not None
    assert data.isascii()
    found = email.message_from_bytes(data, policy=policy.default)
    assert isinstance(found, EmailMessage)
    assert not found.defects
    return found


def mixed(*parts: bytes) -> bytes:
    inner = b"".join(b"--x y\r\n" + part + b"\r\n" for part in parts)
    return (HEAD + MIXED).encode() + inner + b"--x y--\r\n"


def test_a_text_is_encoded_under_headers_that_stay_as_they_are() -> None:
    data = (HEAD + TEXT + "Grüße und vielen Dank für die Bestellung,\r\n.\r\nJö \r\n").encode()
    found = seven_bit(data)
    assert read(found).get_content() == "Grüße und vielen Dank für die Bestellung,\r\n.\r\nJö \r\n"
    head = (HEAD + TEXT).replace("8bit", "quoted-printable")
    assert found is not None
    assert found.startswith(head.encode())


def test_the_same_content_gives_the_same_octets() -> None:
    data = mixed((TEXT + "Grüße").encode(), (LATIN + "Gr\xfc\xdfe").encode("latin-1"))
    assert seven_bit(data) == seven_bit(data)
    assert seven_bit(data) is not None


def test_only_the_parts_that_need_it_are_encoded() -> None:
    plain = b"Content-Type: text/plain\r\n\r\nplain   \r\n"
    pdf = b"Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n"
    data = mixed(plain, pdf, (LATIN + "Gr\xfc\xdfe").encode("latin-1"))
    found = seven_bit(data)
    assert found is not None
    assert b"--x y\r\n" + plain + b"\r\n--x y\r\n" + pdf + b"\r\n--x y\r\n" in found
    assert [part.get_content_type() for part in read(found).walk()] == [
        "multipart/mixed", "text/plain", "application/pdf", "text/html",
    ]  # fmt: skip
    *_, html = read(found).iter_parts()
    assert html.get_content() == "Gr\xfc\xdfe"
    assert b"8bit" not in found


def test_a_file_in_eight_bits_becomes_base64_octet_for_octet() -> None:
    octets = bytes(range(1, 256)).replace(b"\r", b"").replace(b"\n", b"")
    (part,) = read(seven_bit(mixed(FILE.encode() + octets))).iter_parts()
    assert part["Content-Transfer-Encoding"] == "base64"
    assert part.get_content() == octets


def test_the_text_of_a_message_within_is_encoded_and_the_message_is_not() -> None:
    within = (FORWARDED + HEAD + TEXT + "Grüße und Dank").encode()
    (outer,) = read(seven_bit(mixed(within))).iter_parts()
    assert outer["Content-Transfer-Encoding"] == "7bit"
    inner = outer.get_content()
    assert inner["Content-Transfer-Encoding"] == "quoted-printable"
    assert inner.get_content() == "Grüße und Dank"


def test_a_message_that_is_no_mime_becomes_one() -> None:
    data = "From: a@b.example\r\nTo: c@d.example\r\n\r\nGrüße\r\n".encode()
    found = read(seven_bit(data))
    assert found["MIME-Version"] == "1.0"
    assert found.get_payload(decode=True) == "Grüße\r\n".encode()


@pytest.mark.parametrize(
    "data",
    [
        (DKIM + HEAD + TEXT + "Grüße\r\n").encode(),
        mixed((FORWARDED + DKIM + HEAD + TEXT + "Grüße").encode()),
        (
            HEAD
            + 'Content-Type: multipart/signed; boundary="s"\r\n\r\n--s\r\n'
            + TEXT
            + "Grüße\r\n--s\r\nContent-Type: application/pgp-signature\r\n\r\nx\r\n--s--\r\n"
        ).encode(),
        (HEAD + "Content-Type: application/pkcs7-mime\r\n\r\nGrüße\r\n").encode(),
    ],
    ids=["DKIM", "DKIM within", "multipart/signed", "S/MIME"],
)
def test_what_is_signed_is_not_encoded(data: bytes) -> None:
    assert seven_bit(data) is None


@pytest.mark.parametrize(
    "data",
    [
        ("Subject: Grüße\r\n" + HEAD + TEXT + "x\r\n").encode(),
        (HEAD + "Content-Type: multipart/mixed\r\n\r\nGrüße\r\n").encode(),
        (HEAD + "Content-Type: message/partial\r\n\r\nSubject: Grüße\r\n\r\nx").encode(),
        b"".join([HEAD.encode(), b"Content-Transfer-Encoding: x-own\r\n\r\n\xff\r\n"]),
    ],
    ids=["a header", "no boundary", "message/partial", "an encoding of its own"],
)
def test_what_cannot_be_encoded_is_not(data: bytes) -> None:
    assert seven_bit(data) is None


@pytest.mark.parametrize("place", range(60, 80))
def test_no_soft_break_makes_a_delimiter_of_a_text(place: int) -> None:
    text = "ü" + "a" * place + "--x y" + " and on" * 20
    parts = list(read(seven_bit(mixed((TEXT + text).encode()))).iter_parts())
    assert [part.get_content() for part in parts] == [text]


@given(st.text("ab =.-\tü日\n", max_size=200))
def test_any_text_arrives_as_it_was(text: str) -> None:
    lines = text.replace("\n", "\r\n") + "ü\r\n"
    assert read(seven_bit((HEAD + TEXT + lines).encode())).get_content() == lines
