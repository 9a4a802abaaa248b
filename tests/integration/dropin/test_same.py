"""The same messages through Flask-Mail itself and through the drop-in: what must arrive alike.

Compared are the envelope, its options, the headers, and every MIME part with its headers and its
decoded content. What we do otherwise on purpose: `test_differences.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.dropin.conftest import Both, attachment, options, parts

pytestmark = pytest.mark.one_database("postgresql")

PDF = b"%PDF-1.7\0\xff\r\n." * 500
PNG = b"\x89PNG\r\n\x1a\n\0"
LOGO = attachment("logo.png", "image/png", PNG, "inline", {"Content-ID": "<logo>"})

SAME: dict[str, dict[str, Any]] = {
    "a plain text": {},
    "no text": {"body": None},
    "no subject": {"subject": ""},
    "a text that ends without a line end": {"body": "Thank you."},
    "a text with CRLF": {"body": "a\r\n.\r\n..b\r\n"},
    "a text outside of ASCII": {"body": "Grüße aus Köln, 😀\n"},
    "a text in Latin-1": {"body": "Grüße\n", "charset": "iso-8859-1", "subject": "Grüße"},
    "a Japanese text": {"body": "日本\n", "charset": "iso-2022-jp"},
    "a text for base64": {"body": "こんにちは\n" * 50, "charset": "shift_jis"},
    "a subject outside of ASCII": {"subject": "Grüße an alle: 😀 " * 8},
    "a long subject": {"subject": "a plain subject " * 20},
    "a subject that its author folded": {"subject": "one\r\n two\r\n\tthree"},
    "HTML": {"html": "<p>Grüße</p>"},
    "alternatives": {"alts": {"html": "<p>x</p>", "calendar": "BEGIN:VCALENDAR\r\nEND:VCALENDAR"}},
    "an attachment": {"attachments": [attachment("terms.pdf", "application/pdf", PDF)]},
    "an attachment and HTML": {
        "attachments": [attachment("terms.pdf", "application/pdf", PDF)],
        "html": "<p>x</p>",
    },
    "an inline image": {"html": '<img src="cid:logo">', "attachments": [LOGO]},
    "a file name outside of ASCII": {
        "attachments": [attachment("Grüße 😀.pdf", "application/pdf", PDF)]
    },
    "a file name with quotes and blanks": {
        "attachments": [attachment('a "b"; c.txt', "text/plain", b"x")]
    },
    "no file name": {"attachments": [attachment(None, None, b"octets")]},
    "a content type with a parameter": {
        "attachments": [attachment("a.csv", "text/csv; charset=utf-8", "a;ß\n".encode())]
    },
    "a guessed content type": {"attachments": [attachment("a.html", None, b"<p>")]},
    "a text as attachment": {"attachments": [attachment("a.txt", None, "plain text\n")]},
    "an empty attachment": {"attachments": [attachment("a.bin", None, b"")]},
    "headers of an attachment": {
        "attachments": [attachment("a.ics", "text/calendar", b"x", None, {"X-Part": "1"})]
    },
    "names": {
        "sender": ("Ada's Shop", "shop@shop.example"),
        "recipients": [("Jo Doe", "jo@x.example"), "Bo <bo@x.example>", "cy@x.example"],
    },
    "names outside of ASCII": {
        "sender": "Jörg <shop@shop.example>",
        "recipients": [("Jörg Müller", "jo@x.example")],
    },
    "an international domain": {"recipients": ["ada@bücher.example"]},
    "cc and bcc": {
        "recipients": ["a@x.example", "b@x.example"],
        "cc": ["c@x.example", ("Di", "d@x.example")],
        "bcc": ["e@x.example"],
    },
    "many recipients": {"recipients": [f"r{n}@x.example" for n in range(60)]},
    "reply-to": {"reply_to": ("Desk", "desk@shop.example")},
    "a date": {"date": 1_777_896_000.0},
    "extra headers": {
        "extra_headers": {
            "X-Shop": "1",
            "List-Unsubscribe": "<https://shop.example/u/7f3a>",
            "X-Folded": "one\r\n two",
        }
    },
    "a Sender, which is not the envelope's": {"extra_headers": {"Sender": "desk@shop.example"}},
    "headers of a message that was sent on": {
        "extra_headers": {
            "Resent-Date": "Mon, 04 May 2026 12:00:00 +0000",
            "Resent-To": "x@y.example",
        }
    },
    "DSN": {
        "mail_options": ["RET=HDRS", "ENVID=QQ314159"],
        "rcpt_options": ["NOTIFY=SUCCESS,FAILURE"],
        "recipients": ["a@x.example", "b@x.example"],
    },
}


@pytest.mark.parametrize("case", SAME)
@pytest.mark.one_database("sqlite")
@pytest.mark.databases("sqlite", "postgresql")
def test_what_arrives_is_what_flask_mail_sends(both: Both, case: str) -> None:
    theirs, ours = both.send(**SAME[case])
    assert ours.sender == theirs.sender
    assert sorted(ours.recipients) == sorted(theirs.recipients)
    assert (options(ours), ours.rcpt_options) == (options(theirs), theirs.rcpt_options)
    assert parts(ours) == parts(theirs)


@pytest.mark.long
def test_all_of_it_arrives_alike_on_every_database(both: Both) -> None:
    given = SAME["cc and bcc"] | SAME["an inline image"] | SAME["names outside of ASCII"]
    theirs, ours = both.send(**given | SAME["extra headers"])
    assert (ours.sender, sorted(ours.recipients)) == (theirs.sender, sorted(theirs.recipients))
    assert parts(ours) == parts(theirs)
