"""What the author wrote stays; what the library has to fold or encode, it does where it must."""

from __future__ import annotations

import email
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage, Message
from typing import Any, cast

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import render
from outbox.domain.mime.serialize import flatten, folded

POLICIES = {"compat32": policy.compat32, "default": policy.default, "smtp": policy.SMTP}
BASE = b"From: a@b.example\r\nTo: c@d.example\r\nMessage-ID: <1@b.example>\r\nDate: x\r\n"

EXACT = {
    "a long line": b"X-Own: " + b"word " * 150 + b"end\r\n",
    "a long word": b"X-Own: " + b"x" * 900 + b"\r\n",
    "folds at odd places": b"X-Own: a\r\n\tb\r\n  c d\r\n e\r\n",
    "many blanks": b"X-Own: a   b \t c\r\n",
    "an empty value": b"X-Own: \r\n",
    "encoded words": b"Subject: =?iso-8859-1?q?Gr=FC=DFe?= =?UTF-8?B?8J+YgA==?=\r\n",
    "a name in capitals": b"SUBJECT: x\r\n",
    "the same header twice": b"Received: a\r\nX-Own: b\r\nReceived: c\r\n",
    "addresses in every form": b'Cc: "Doe, Jo" <e@f.example>,\r\n\tg@h.example (Bo)\r\n',
    "parameters": b"Content-Type: text/plain; charset=us-ascii;\r\n   format=flowed\r\n",
}


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("case", EXACT)
def test_a_header_that_needs_nothing_goes_out_as_it_was_written(kind: str, case: str) -> None:
    raw = BASE + EXACT[case] + b"\r\nhi\r\n"
    mail = render(
        email.message_from_bytes(raw, policy=POLICIES[kind]),
        send_at=None,
        max_size=10**6,
        split_size=10**6,
    )
    assert mail.content == raw


SIGNED = (
    b"""\
Content-Type: multipart/signed; boundary="b1"; micalg=pgp-sha256;
 protocol="application/pgp-signature"

This is a preamble.
--b1
Content-Type: text/plain;   charset=utf-8
Content-Transfer-Encoding: 8bit
X-Long: %s

Gr\xc3\xbc\xc3\x9fe   \n\n-- \nTrailing blanks and an empty line count.

--b1
Content-Type: application/pgp-signature

-----BEGIN PGP SIGNATURE-----
--b1--
An epilogue.
""".replace(b"\n", b"\r\n")
    % (b"word " * 60)
)


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("forwarded", [False, True])
def test_a_signed_email_survives_byte_for_byte(kind: str, forwarded: bool) -> None:
    raw = BASE + SIGNED
    if forwarded:
        raw = BASE + b"Content-Type: message/rfc822\r\n\r\n" + raw
    message = email.message_from_bytes(raw, policy=POLICIES[kind])
    mail = render(message, send_at=None, max_size=10**6, split_size=10**6)
    assert mail.content == raw


@pytest.mark.parametrize("kind", POLICIES)
def test_a_signed_email_with_a_line_that_may_not_leave_is_refused(kind: str) -> None:
    raw = BASE + SIGNED.replace(b"Trailing", b"x" * 1000)
    message = email.message_from_bytes(raw, policy=POLICIES[kind])
    with pytest.raises(InvalidMessage, match=r"before signing \(RFC 1847") as caught:
        render(message, send_at=None, max_size=10**6, split_size=10**6)
    assert caught.value.field == "message"


def field(name: str, value: Any, kind: type[Message[Any, Any]] = EmailMessage) -> bytes:
    message = kind()
    message[name] = value
    return flatten(message, smtputf8=False).partition(b"\r\n\r\n")[0]


def test_a_long_url_is_no_encoded_word() -> None:
    url = "<https://shop.example/" + "u" * 200 + ">"
    assert field("List-Unsubscribe", url) == f"List-Unsubscribe: {url}".encode()


def test_a_long_word_stands_whole_on_a_line_of_its_own() -> None:
    lines = field("X-Own", "some words " * 6 + "x" * 200 + " and more").split(b"\r\n")
    assert b" " + b"x" * 200 in lines
    assert b"=?" not in b"".join(lines)


def test_a_value_of_more_than_a_line_is_encoded_after_all() -> None:
    written = field("Subject", "x" * 2000)
    assert b"=?" in written
    assert max(map(len, written.split(b"\r\n"))) <= 78
    found = email.message_from_bytes(written + b"\r\n\r\n", policy=policy.default)
    assert found["Subject"] == "x" * 2000


PARSED = "From: a@x.example\nList-Unsubscribe: {}\n\nx\n"


def parsed(value: str, kind: str, signature: str = "") -> Message[Any, Any]:
    made = cast(Any, POLICIES[kind])
    return email.message_from_string(signature + PARSED.format(value), policy=made)


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("signature", ["", "DKIM-Signature: v=1; a=rsa-sha256; b=x\n"])
def test_a_long_word_in_the_header_of_a_parsed_message_is_refused(
    kind: str, signature: str
) -> None:
    message = parsed(f"<https://x.example/{'u' * 1000}>", kind, signature)
    with pytest.raises(InvalidMessage, match="list-unsubscribe: has a line over 998 octets"):
        flatten(message, smtputf8=False)


@pytest.mark.parametrize("kind", POLICIES)
def test_a_long_line_of_a_parsed_message_is_folded_at_its_blanks_if_nobody_signed_it(
    kind: str,
) -> None:
    urls = ", ".join(f"<https://x.example/{'u' * 200}/{n}>" for n in range(6))
    written = flatten(parsed(urls, kind), smtputf8=False).partition(b"\r\n\r\n")[0]
    assert max(map(len, written.split(b"\r\n"))) < 300
    assert urls.encode() in written.replace(b"\r\n", b"")
    with pytest.raises(InvalidMessage, match="list-unsubscribe: has a line over 998 octets"):
        flatten(parsed(urls, kind, "DKIM-Signature: v=1; b=x\n"), smtputf8=False)


def test_text_outside_of_ascii_is_encoded_and_folded() -> None:
    written = field("Subject", "Grüße " * 40)
    assert written.isascii()
    assert max(map(len, written.split(b"\r\n"))) <= 78


def test_encoded_words_that_the_author_wrote_are_left_to_the_policy() -> None:
    assert b"=?" in field("To", Address("Jö", "a", "b.example"))
    written = field("X-Own", "=?utf-8?q?J=C3=B6?= " + "x" * 100)
    found = email.message_from_bytes(written + b"\r\n\r\n", policy=policy.default)
    assert found["X-Own"] == "Jö " + "x" * 100


def test_a_fold_comes_at_a_blank_and_never_before_the_value() -> None:
    assert folded("X-Own", "x" * 100) == "x" * 100
    assert folded("X-Own", "word " * 30 + "end").replace("\r\n", "") == "word " * 30 + "end"
    assert max(map(len, f"X-Own: {folded('X-Own', 'word ' * 30)}".split("\r\n"))) <= 78
