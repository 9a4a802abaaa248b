"""Names of files and of people, and subjects, as every receiver reads them."""

from __future__ import annotations

import email
import re
from email import policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from typing import Any

import flask_mail
import pytest

from outbox.domain.header.fields import written
from outbox.domain.message.render import render
from outbox.flask_ext.messages import fast_path
from outbox.flask_ext.messages.convert import standard

pytestmark = pytest.mark.usefixtures("flask_mail_context")

LIMITS: dict[str, Any] = {"max_size": 10**7, "split_size": 10**7}


def make(**fields: Any) -> flask_mail.Message:
    given = {"subject": "s", "sender": "a@b.example", "recipients": ["c@d.example"], "body": "b"}
    return flask_mail.Message(**given | fields)


def rendered(**fields: Any) -> bytes:
    message = make(date=1.0, **fields)
    content = render(standard(message), send_at=None, **LIMITS).content
    short = fast_path.render_fast(message, send_at=None, **LIMITS)
    assert short is None or short.content == content
    return content


def read(content: bytes) -> EmailMessage:
    found = email.message_from_bytes(content, policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def with_file(name: str) -> bytes:
    return rendered(attachments=[flask_mail.Attachment(name, "application/pdf", b"x")])


NAMES = {
    "one word": "Grüße.pdf",
    "blanks and quotes": "Grüße an \"alle\"; 100 % 'gut'.pdf",
    "Chinese, 108": "字" * 104 + ".pdf",
    "Chinese, 109": "字" * 105 + ".pdf",
    "Chinese, 255": "字" * 251 + ".pdf",
    "emoji, 127": "😀" * 127,
    "ASCII, 255": "x" * 251 + ".pdf",
    "ASCII, 1500": "x" * 1496 + ".pdf",
    "quotes and a backslash": 'a "b" \\ c.pdf',
    "like an encoded word": "=?utf-8?q?a?=.pdf",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_file_s_name_arrives(name: str) -> None:
    content = with_file(name)
    (part,) = read(content).iter_attachments()
    assert part.get_filename() == name
    *_, old = email.message_from_bytes(content).walk()
    assert old.get_filename() == name
    _, _, field = content.partition(b"\r\nContent-Disposition: ")
    lines = field.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert max(map(len, lines)) <= (998 if len(lines) == 1 else 78)


@pytest.mark.parametrize("name", [name for name in NAMES.values() if not name.isascii()])
def test_the_charset_of_a_file_s_name_is_one(name: str) -> None:
    """RFC 2231 §4: some readers know no `UTF8`, and show nothing."""
    assert re.findall(rb"filename\*(?:0\*)?=([^']*)''", with_file(name)) == [b"utf-8"]


def test_each_piece_of_a_long_name_is_whole_characters() -> None:
    """Some readers decode each piece by itself."""
    pieces = re.findall(rb"filename\*\d+\*=(?:utf-8'')?([^;\r\n]*)", with_file("字😀" * 60))
    assert len(pieces) > 5
    assert all(re.sub(rb"%..", b"", piece) == b"" for piece in pieces)
    assert "".join(
        bytes.fromhex(piece.decode().replace("%", "")).decode() for piece in pieces
    ) == "字😀" * 60  # fmt: skip


@pytest.mark.parametrize("subject", ["a\tb", "Order\t17\tpaid", "ü\tb", "a\tb " * 60, "ü\tb " * 60])
def test_a_tab_in_a_subject_is_sent_as_flask_mail_sends_it(subject: str) -> None:
    def shown(content: bytes) -> str:
        value = str(email.message_from_bytes(content)["Subject"])
        return str(make_header(decode_header(re.sub(r"\r?\n(?=[ \t])", "", value))))

    assert shown(rendered(subject=subject)) == subject
    if len(subject) < 70:
        assert shown(make(subject=subject).as_bytes()) == subject


LONG = {
    "Cyrillic": "Спасибо за Ваш заказ в магазине",
    "Burmese": "မှာယူမှုအတွက် ကျေးဇူးတင်ပါသည်",
    "emoji": "😀 " * 40 + "end",
    "emoji and Latin": "a" * 33 + "😀" * 30,
    "combining characters": "e\u0301" * 60,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
@pytest.mark.parametrize("header", ["Subject", "From", "To", "X-Own", "X-" + "Long" * 10])
def test_no_encoded_word_but_the_last_is_padded(header: str, text: str) -> None:
    """GMime ends a run of words in base64 at the first padding: half of a subject is lost."""
    more: dict[str, Any] = {
        "Subject": {"subject": text},
        "From": {"sender": (text, "a@b.example")},
        "To": {"recipients": [(text, "c@d.example")]},
    }
    content = rendered(**more.get(header, {"extra_headers": {header: text}}))
    start = content.index(header.encode() + b": ")
    field = re.split(rb"\r\n(?![ \t])", content[start:])[0]
    assert str(make_header(decode_header(field.decode().partition(": ")[2]))).startswith(text)
    assert len(re.findall(rb"=\?utf-8\?", field)) > 1
    assert not re.search(rb"=\?utf-8\?b\?[^?]*=\?=\s+=\?utf-8", field)
    assert max(map(len, field.split(b"\r\n"))) <= (78 if header in ("Subject", "X-Own") else 998)


@pytest.mark.parametrize(
    "name",
    [
        'Müller, Söhne "GmbH" & Co',
        'Shop "Am Markt" Berlin',
        '"Am Markt" Berlin',
        '"A" and "B"',
        'one " alone',
        "=?utf-8?q?b?=",
        "a =?utf-8?b?Yg==?= c",
        "ü =?utf-8?q?b?=",
    ],
)
def test_a_name_arrives_as_it_was_given(name: str) -> None:
    content = rendered(
        sender=(name, "a@b.example"),
        recipients=[(name, "c@d.example")],
        cc=[(name, "e@d.example")],
        reply_to=(name, "r@b.example"),
    )
    found = read(content)
    for header in ("From", "To", "Cc", "Reply-To"):
        (address,) = found[header].addresses
        assert address.display_name == name
    assert found["From"].addresses[0].addr_spec == "a@b.example"


def test_a_quoted_name_in_a_sender_s_text_is_read() -> None:
    (address,) = read(rendered(sender='"Doe, Jo" <a@b.example>'))["From"].addresses
    assert address.display_name == "Doe, Jo"


@pytest.mark.parametrize("address", ["c@d.example", "jö@d.example"])
@pytest.mark.parametrize("utf8", [False, True])
def test_what_looks_like_an_encoded_word_is_literal_in_a_name(address: str, utf8: bool) -> None:
    """RFC 2047 §5: some readers decode one in a quoted string too."""
    field = written("=?utf-8?q?b?= x", address, utf8=utf8)
    assert field == f"=?utf-8?b?PT91dGYtOD9xP2I/PSB4?= <{address}>"
