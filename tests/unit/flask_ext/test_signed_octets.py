"""A signed message of a class's own `as_bytes` goes as it was signed, or is refused."""

from __future__ import annotations

import flask_mail
import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import render
from outbox.flask_ext.messages.convert import standard

pytestmark = pytest.mark.usefixtures("flask_mail_context")

HEAD = (
    b"From: shop@shop.example\r\nTo: ada@x.example\r\nSubject: one\r\nMIME-Version: 1.0\r\n"
    b"Date: Mon, 01 Jan 2024 00:00:00 +0000\r\nMessage-ID: <a@shop.example>\r\n"
)
SEAL = b"DKIM-Signature: v=1; a=rsa-sha256; d=shop.example; bh=x; b=y\r\n"
PGP = b'Content-Type: multipart/signed; protocol="application/pgp-signature"; boundary="b1"\r\n'
MIXED = b'Content-Type: multipart/mixed; boundary="%s"\r\n'
SIGNATURE = b"\r\n--b1\r\nContent-Type:application/pgp-signature\r\n\r\nxx\r\n--b1--\r\n"
PARTS = {
    "several blanks": b"X-Odd:   a  b ",
    "none": b"Content-Type:text/plain",
    "a tab": b"Content-Type:\ttext/plain",
    "a fold": b"Content-ID:\r\n <a@x>",
    "UTF-8": "X-Odd:  Grüße".encode(),
}


class AsGiven(flask_mail.Message):
    octets = b""

    def as_bytes(self) -> bytes:
        return self.octets


def sent(octets: bytes) -> bytes:
    message = AsGiven("s", ["ada@x.example"], "b", sender="shop@shop.example")
    message.octets = octets
    mail = render(standard(message), send_at=None, max_size=10**6, split_size=10**6)
    return mail.content


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("head", [HEAD + PGP, SEAL + HEAD + MIXED % b"b1"], ids=["PGP", "DKIM"])
def test_a_signed_part_s_headers_stay_as_they_were_written(head: bytes, part: bytes) -> None:
    octets = head + b"\r\nbefore \r\n--b1\r\n" + part + b"\r\n\r\nhello \r\n.\r\n" + SIGNATURE
    for ends in (b"\r\n", b"\n"):
        assert sent(octets.replace(b"\r\n", ends)) == octets


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_signature_within_the_message_that_would_break_is_refused(part: bytes) -> None:
    def nested(part: bytes) -> bytes:
        inner = PGP + b"\r\n--b1\r\n" + part + b"\r\n\r\nhello\r\n" + SIGNATURE
        return HEAD + MIXED % b"b2" + b"\r\n--b2\r\n" + inner + b"\r\n--b2--\r\n"

    with pytest.raises(InvalidMessage, match=r"Name: value"):
        sent(nested(part))
    whole = nested(b"X-Odd: a").replace(b"Type:app", b"Type: app")
    assert sent(whole) == whole


def test_a_forwarded_message_is_not_refused_for_its_dkim_signature() -> None:
    inner = SEAL + MIXED % b"b1" + b"\r\n--b1\r\nX-Odd:a\r\n\r\nhello\r\n--b1--\r\n"
    octets = HEAD + b"Content-Type: message/rfc822\r\n\r\n" + inner
    assert b"".join(sent(octets).split()) == b"".join(octets.split())


def under_seal(canonical: bytes, field: bytes) -> bytes:
    return SEAL.replace(b" d=", canonical + b" d=") + HEAD + field + b"\r\n\r\nhello\r\n"


@pytest.mark.parametrize("field", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("canonical", [b"", b" c=simple/relaxed;"])
def test_a_header_over_whose_blanks_is_a_signature_is_refused(
    canonical: bytes, field: bytes
) -> None:
    with pytest.raises(InvalidMessage, match=r"c=relaxed"):
        sent(under_seal(canonical, field))
    octets = under_seal(canonical, b"X-Odd: a  b ")
    assert sent(octets) == octets


@pytest.mark.parametrize("field", [one for one in PARTS.values() if one.isascii()])
def test_a_signature_for_which_blanks_do_not_count_holds(field: bytes) -> None:
    octets = under_seal(b" c = relaxed/simple;", field)
    assert b"".join(sent(octets).split()) == b"".join(octets.split())


def test_what_is_signed_is_checked_all_the_same() -> None:
    octets = HEAD + PGP + b"\r\n--b1\r\nX-Odd:  a\0b\r\n\r\nhello\r\n" + SIGNATURE
    with pytest.raises(InvalidMessage, match="control characters"):
        sent(octets)
