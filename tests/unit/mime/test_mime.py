"""MIME structure: boundaries that repeat, copies that leave the original alone."""

from __future__ import annotations

from email.message import EmailMessage, Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import pytest

from outbox.domain.header.signatures import is_signed
from outbox.domain.mime.structure import detached, encoded, set_boundaries


def nested(text: str = "a") -> MIMEMultipart:
    message, inner = MIMEMultipart(), MIMEMultipart("alternative")
    inner.attach(MIMEText(text))
    message.attach(inner)
    return message


def boundaries(message: Message[Any, Any]) -> list[str | None]:
    return [part.get_boundary() for part in message.walk() if part.is_multipart()]


def test_a_boundary_that_is_given_is_kept() -> None:
    message = MIMEMultipart(boundary="mine")
    message.attach(MIMEMultipart())
    set_boundaries(message)
    first, second = boundaries(message)
    assert first == "mine"
    assert second is not None
    assert second.startswith("=_")


def test_a_message_without_multiparts_stays_as_it_is() -> None:
    message = MIMEText("a")
    set_boundaries(message)
    assert message["Content-Type"] == 'text/plain; charset="us-ascii"'


def test_equal_contents_have_equal_boundaries_and_others_have_others() -> None:
    one, two, three = nested(), nested(), nested("b")
    for message in (one, two, three):
        set_boundaries(message)
    assert boundaries(one) == boundaries(two)
    assert not set(boundaries(one)) & set(boundaries(three))


@pytest.mark.parametrize("parts", [1, 9, 10, 99, 100])
def test_no_boundary_is_the_beginning_of_another(parts: int) -> None:
    """Some readers compare no more than the beginning of a line (RFC 2046 §5.1.1)."""
    message = MIMEMultipart("mixed", None, [nested() for _ in range(parts)])
    set_boundaries(message)
    found = [boundary or "" for boundary in boundaries(message)]
    assert len(found) == 1 + 2 * parts
    assert not [one for one in found for two in found if one != two and two.startswith(one)]


def test_up_to_ten_boundaries_are_as_they_ever_were() -> None:
    """A key that is given again with the same message would else be in conflict."""
    message = MIMEMultipart("mixed", None, [MIMEMultipart() for _ in range(9)])
    set_boundaries(message)
    assert [str(boundary)[-2:] for boundary in boundaries(message)] == [f"_{n}" for n in range(10)]


def test_a_detached_copy_shares_no_headers_and_no_list_of_parts() -> None:
    message = nested()
    twin = detached(message)
    set_boundaries(twin)
    twin["X-Own"] = "x"
    for part in twin.walk():
        part["X-Part"] = "x"
    twin.attach(MIMEText("more"))
    assert boundaries(message) == [None, None]
    assert message["X-Own"] is None
    assert all(part["X-Part"] is None for part in message.walk())
    assert len(message.get_payload()) == 1


def test_a_detached_copy_has_the_same_kind_and_the_same_bytes() -> None:
    message = EmailMessage()
    message["Subject"] = "s"
    message.set_content("x")
    message.add_attachment(b"y", "application", "pdf", filename="y.pdf")
    message.set_boundary("b")
    twin = detached(message)
    assert type(twin) is EmailMessage
    assert twin.as_bytes() == message.as_bytes()


@pytest.mark.parametrize(
    ("maintype", "encoding"), [("text", "quoted-printable"), ("application", "base64")]
)
def test_a_part_with_a_long_line_is_encoded_by_its_kind(maintype: str, encoding: str) -> None:
    message = MIMEBase(maintype, "x-own")
    message.set_payload("x" * 1000)
    short = encoded(message)
    assert short["Content-Transfer-Encoding"] == encoding
    assert short.get_payload(decode=True) == b"x" * 1000
    assert message["Content-Transfer-Encoding"] is None


def test_a_text_in_utf_16_is_encoded_octet_for_octet() -> None:
    data = "Gr\u010a\r\n\u0d0a".encode("utf-16")
    message = MIMEBase("text", "plain", charset="utf-16")
    message.set_payload(data.decode("ascii", "surrogateescape"))
    assert encoded(message).get_payload(decode=True) == data


@pytest.mark.parametrize("encoding", ["7bit", "8BIT", "binary", None])
def test_an_encoding_that_encodes_nothing_is_replaced(encoding: str | None) -> None:
    message = MIMEBase("text", "plain")
    if encoding:
        message["Content-Transfer-Encoding"] = encoding
    message.set_payload("x" * 1000)
    assert encoded(message).get_all("Content-Transfer-Encoding") == ["quoted-printable"]


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable", "x-own"])
def test_a_part_that_is_encoded_already_is_left_alone(encoding: str) -> None:
    message = MIMEBase("text", "plain")
    message["Content-Transfer-Encoding"] = encoding
    message.set_payload("eHh4" * 500)
    assert encoded(message).get_payload() == "eHh4" * 500


def test_a_part_with_short_lines_is_left_alone() -> None:
    message = MIMEBase("text", "plain")
    message.set_payload("x" * 998)
    assert encoded(message)["Content-Transfer-Encoding"] is None


def signed(text: str) -> MIMEMultipart:
    message = MIMEMultipart("signed", protocol="application/pgp-signature")
    message.attach(MIMEText(text, "plain", "us-ascii"))
    message.attach(MIMEBase("application", "pgp-signature"))
    return message


def test_a_signed_part_is_left_alone_however_deep_and_the_others_are_encoded() -> None:
    message, inner = MIMEMultipart(), MIMEMultipart()
    message.attach(inner)
    inner.attach(signed("x" * 1000))
    inner.attach(MIMEText("y" * 1000, "plain", "us-ascii"))
    kept, other = [p for p in encoded(message).walk() if p.get_content_type() == "text/plain"]
    assert (kept.get_payload(), kept["Content-Transfer-Encoding"]) == ("x" * 1000, "7bit")
    assert other["Content-Transfer-Encoding"] == "quoted-printable"


@pytest.mark.parametrize(
    ("message", "found"), [(signed("x"), True), (nested(), False), (MIMEText("x"), False)]
)
def test_a_signature_is_seen(message: Message[Any, Any], found: bool) -> None:
    assert is_signed(message) is found
    outer = MIMEMultipart()
    outer.attach(message)
    assert is_signed(outer) is found


def test_a_multipart_that_no_parser_could_split_gets_no_boundary() -> None:
    message = MIMEMultipart()
    message.set_payload("Blah")
    set_boundaries(message)
    assert message.get_boundary() is None
