"""A message or a report that is attached goes as it is: RFC 2046 §5.2 forbids to encode one."""

from __future__ import annotations

import email
from email import policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import flask_mail
import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import render
from outbox.domain.mime.seven_bit import seven_bit
from outbox.flask_ext.messages import attachment
from outbox.flask_ext.messages.convert import standard
from tests.support import corpus

pytestmark = pytest.mark.usefixtures("flask_mail_context")

HEAD = b"From: a@b.example\r\nTo: c@d.example\r\nSubject:  The  first\r\nMIME-Version: 1.0\r\n"
DKIM = b"DKIM-Signature: v=1; d=b.example; h=from; bh=x; b=y\r\n"
EIGHT = b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
MIXED = (
    HEAD
    + b'Content-Type: multipart/mixed; boundary="x y"\r\n\r\nA preamble.\r\n--x y\r\n\r\none\r\n'
    + b"--x y\r\nContent-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nAAEC\r\n"
    + b"--x y--\r\n"
)
FITTING = {
    "seven bits": HEAD + b"\r\nThank you.\r\n.\r\n--\r\n",
    "without a line end at its end": HEAD + b"\r\nThank you.",
    "bare line feeds": (HEAD + b"\r\nThank you.\r\n").replace(b"\r\n", b"\n"),
    "signed": DKIM + HEAD + b"\r\nThank you.\r\n",
    "parts": MIXED,
    "eight bits": HEAD + EIGHT + "Grüße\r\n".encode(),
    "a header alone": HEAD,
    "nothing": b"",
}
UNFIT = {
    "a NUL": HEAD + b"\r\n\0\r\n",
    "a long line": HEAD + b"\r\n" + b"x" * 999 + b"\r\n",
    "a bare carriage return": HEAD + b"\r\na\rb\r\n",
    "eight bits in a header": "Subject: Grüße\r\n\r\nx\r\n".encode(),
    "eight bits and signed": DKIM + HEAD + EIGHT + "Grüße\r\n".encode(),
    "a header that takes long to read": b"To: " + b"a,\r\n " * 400 + b"\r\n" + HEAD + b"\r\nx\r\n",
    "a charset for host names": HEAD + b"Content-Type: text/plain; charset=punycode\r\n\r\nx\r\n",
    "no message at all": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
}


def content(data: bytes | str, kind: str | None = "message/rfc822") -> bytes:
    made = flask_mail.Message("s", ["c@d.example"], "See below.\n", sender="a@b.example")
    made.attach("mail.eml", kind, data)
    return render(standard(made), send_at=None, max_size=10**8, split_size=10**8).content


def attached(octets: bytes) -> Any:
    (part,) = email.message_from_bytes(
        octets, _class=EmailMessage, policy=policy.default
    ).iter_attachments()
    return part


@pytest.mark.parametrize("kind", ["message/rfc822", "Message/RFC822; x=y", None])
@pytest.mark.parametrize("data", FITTING.values(), ids=list(FITTING))
def test_a_message_is_attached_octet_for_octet(data: bytes, kind: str | None) -> None:
    octets = content(data, kind)
    part = attached(octets)
    assert (part.get_content_type(), part.get_filename()) == ("message/rfc822", "mail.eml")
    assert part["Content-Transfer-Encoding"] == ("7bit" if data.isascii() else "8bit")
    sent = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    assert b'filename="mail.eml"\r\n\r\n' + sent + b"\r\n--=_" in octets


def test_its_text_is_read_and_a_server_without_8bitmime_gets_it_too() -> None:
    octets = content((HEAD + EIGHT + "Grüße\r\n".encode()).decode())
    seven = seven_bit(octets)
    assert seven is not None
    for found in (octets, seven):
        inner = attached(found).get_content()
        assert (inner["To"], inner.get_content()) == ("c@d.example", "Grüße\r\n")


@pytest.mark.parametrize("data", UNFIT.values(), ids=list(UNFIT))
def test_what_cannot_go_so_is_a_file_of_the_same_name(data: bytes) -> None:
    octets = content(data)
    part = attached(octets)
    assert (part.get_content_type(), part.get_filename()) == (
        "application/octet-stream", "mail.eml",
    )  # fmt: skip
    assert part["Content-Transfer-Encoding"] == "base64"
    assert part.get_content() == data
    assert octets.isascii()


REPORT = (
    b"Reporting-MTA: dns; mx.example\r\n\r\nFinal-Recipient:  rfc822;\r\n\tada@x.example\r\n"
    b"Action: failed\r\nStatus: 5.1.1\r\n"
)
REPORTS = {
    "two blocks": REPORT,
    "a line more": REPORT + b"\r\n",
    "lines more": REPORT + b"\r\n\r\n\r\n",
    "no line end": REPORT.rstrip(),
    "bare line feeds": REPORT.replace(b"\r\n", b"\n"),
    "nothing": b"",
}
KINDS = [
    "message/delivery-status", "Message/Delivery-Status; x=y", "message/disposition-notification",
    "message/feedback-report", "message/partial", "message/global-delivery-status",
]  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", REPORTS.values(), ids=list(REPORTS))
def test_a_report_is_attached_octet_for_octet(data: bytes, kind: str) -> None:
    octets = content(data, kind)
    part = attached(octets)
    assert part.get_content_type() == kind.partition(";")[0].lower()
    assert part["Content-Transfer-Encoding"] == "7bit"
    sent = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    assert b'filename="mail.eml"\r\n\r\n' + sent + b"\r\n--=_" in octets


def test_a_report_is_read_by_its_blocks() -> None:
    machine, recipient = attached(content(REPORT, "message/delivery-status")).get_payload()
    assert machine["Reporting-MTA"] == "dns; mx.example"
    assert recipient["Status"] == "5.1.1"


ELSE = {
    "eight bits": REPORT + "X-A: Grüße\r\n".encode(),
    "a long line": REPORT + b"x" * 999,
    "a NUL": REPORT + b"\0",
    "a bare carriage return": b"\r" + REPORT,
}


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [*KINDS, "multipart/mixed", "Multipart/Related; boundary=b"])
@pytest.mark.parametrize("data", ELSE.values(), ids=list(ELSE))
def test_a_report_that_cannot_go_as_it_is_is_a_file(data: bytes, kind: str) -> None:
    """RFC 3464 §2.1 and its like allow 7bit alone, and RFC 2045 §6.4 no base64 in a multipart."""
    part = attached(content(data, kind))
    assert (part.get_content_type(), part.get_filename()) == (
        "application/octet-stream", "mail.eml",
    )  # fmt: skip
    assert part.get_content() == data


def test_a_report_that_would_be_changed_when_it_is_read_is_a_file() -> None:
    """A line that is no field: CPython's parser takes it for a body, and sets a blank line."""
    data = REPORT + b"and so on\r\n"
    part = attached(content(data, "message/delivery-status"))
    assert (part.get_content_type(), part.get_content()) == ("application/octet-stream", data)


def test_a_multipart_is_a_file() -> None:
    assert attached(content(MIXED, "multipart/mixed")).get_content() == MIXED


def test_a_report_that_the_app_has_encoded_is_refused() -> None:
    """The standard library writes base64, and then cannot write the message."""
    made = EmailMessage()
    made["From"], made["To"] = "a@b.example", "c@d.example"
    made.set_content("See below.")
    made.add_attachment(REPORT, maintype="message", subtype="delivery-status")
    with pytest.raises(InvalidMessage, match="message/delivery-status is 7bit"):
        render(made, send_at=None, max_size=10**8, split_size=10**8)


def test_a_report_beside_eight_bits_stays_as_it_is_for_a_server_of_seven() -> None:
    made = flask_mail.Message("s", ["c@d.example"], "See below.\n", sender="a@b.example")
    made.attach("mail.eml", "message/rfc822", HEAD + EIGHT + "Grüße\r\n".encode())
    made.attach("report", "message/delivery-status", REPORT)
    octets = render(standard(made), send_at=None, max_size=10**8, split_size=10**8).content
    seven = seven_bit(octets)
    assert seven is not None
    assert b"\r\n\r\n" + REPORT.replace(b":  ", b": ") + b"\r\n--=_" in seven


def test_a_message_that_takes_long_to_read_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is looked at once for each multipart: a visitor may have sent thousands of both."""
    read = list[int]()

    def note(data: bytes) -> Any:
        read.append(len(data))
        return email.message_from_bytes(data)

    monkeypatch.setattr(attachment, "message_from_bytes", note)
    monkeypatch.setattr(attachment, "MOST_LOOKS", 100)
    deep = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" * 8
    assert attachment.encoding_as_it_is(deep) is None
    assert attachment.encoding_as_it_is(b"\r\n" * 101) is None
    assert read == []
    assert attachment.encoding_as_it_is(b"\r\n" * 100) == "7bit"
    assert read == [200]


@pytest.mark.parametrize(
    "file",
    sorted((Path(corpus.__file__).parent / "cpython").glob("*.txt")),
    ids=lambda one: one.name,
)
def test_any_message_arrives_octet_for_octet(file: Path) -> None:
    data = file.read_bytes()
    octets = content(data)
    part = attached(octets)
    if part.get_content_type() == "message/rfc822":
        sent = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        assert b"\r\n\r\n" + sent + b"\r\n--=_" in octets
    else:
        assert part.get_content() == data
