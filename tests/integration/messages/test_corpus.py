"""CPython's own corpus of nasty emails goes through table and wire, byte for byte.

`tests/support/corpus/cpython` holds the data of CPython's `test_email`. Each email is parsed,
enqueued, stored, relayed and caught by a real SMTP server; what arrived is compared with the file,
line ends as CRLF. What must differ stands here by name: REFUSED as it is, and then sent with the
header that it lacked; UNKEPT where the parser, before us, does not keep an octet of the file; and a
Message-ID and a Date are added behind the last header where there is none.
"""

from __future__ import annotations

import email
import re
from email import policy
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from outbox import InvalidMessage, Status
from outbox.domain.mime.line_endings import normalise
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop

pytestmark = [pytest.mark.over_and_over, pytest.mark.one_database("postgresql")]

CORPUS = Path(__file__).parents[2] / "support" / "corpus" / "cpython"
PARSERS = {"compat32": policy.compat32, "default": policy.default}

Edit = tuple[bytes, bytes]
"""What stands in the file (nothing: its start), and what stands in its place."""

FROM = (b"", b"From: a@x.example\r\nTo: b@x.example\r\n")
TO = (b"", b"To: b@x.example\r\n")
NO_AUTHOR = ("from", "is required (RFC 5322 §3.6.2)")
NO_RECIPIENT = ("recipients", "at least one is required")
NO_ADDRESS = "is not a list of addresses (RFC 5322 §3.4)"

REFUSED: dict[str, tuple[tuple[str, str], list[Edit]]] = {
    "msg_05.txt": (
        ("from", NO_ADDRESS),
        [(b"From: foo\r\n", b"From: a@x.example\r\n"), (b"To: baz\r\n", b"To: b@x.example\r\n")],
    ),
    "msg_11.txt": (NO_AUTHOR, [FROM]),
    "msg_15.txt": (
        ("to", NO_ADDRESS),
        # Its Message-ID has no @ (RFC 5322 §3.6.4).
        [(b"\r\nTo: XX\r\n", b"\r\nTo: b@x.example\r\n"), (b"<xxxx>", b"<xxxx@x.example>")],
    ),
    "msg_18.txt": (NO_AUTHOR, [FROM]),
    "msg_19.txt": (NO_AUTHOR, [(b"", FROM[1] + b"\r\n")]),  # a text without any header
    "msg_23.txt": (NO_RECIPIENT, [TO]),
    "msg_28.txt": (NO_RECIPIENT, [TO]),
    "msg_30.txt": (NO_RECIPIENT, [TO]),
    "msg_31.txt": (NO_RECIPIENT, [TO]),
    "msg_36.txt": (NO_RECIPIENT, [(b"", b"Cc: b@x.example\r\n")]),  # To: IETF-Announce:;
    "msg_37.txt": (NO_AUTHOR, [FROM]),
    "msg_38.txt": (NO_AUTHOR, [FROM]),
    "msg_39.txt": (NO_AUTHOR, [FROM]),
    "msg_40.txt": (NO_AUTHOR, [FROM]),
    "msg_43.txt": (("from", NO_ADDRESS), [(b"DAEMON <>\r\nTo", b"DAEMON <a@x.example>\r\nTo")]),
    "msg_47.txt": (NO_RECIPIENT, [TO]),
}

_DELIMITER, _X_TWO = b"--ABCDE\r\n", b"Content-Type: text/x-two\r\n\r\nBlah\r\n\r\n"
_INNER = b"------- =_aaaaaaaaaa%d%s\r\n"

_BOUNCE = b"From SRS0=aO/p=ON=bag.python.org=None@bounce2.pobox.com  Fri Nov 26 21:40:36 2004\r\n"

UNKEPT: dict[str, list[Edit]] = {
    # A part that ends with its headers: the empty line behind them is written.
    "msg_12.txt": [(b'8859-3"\r\n\r\n--ANOTHER--', b'8859-3"\r\n\r\n\r\n--ANOTHER--')],
    "msg_15.txt": [(b'IME_Part"\r\n\r\n\r\n', b'IME_Part"\r\n\r\n\r\n\r\n')],
    "msg_39.txt": [(b"1022586929.2@example.com>\r\n", b"1022586929.2@example.com>\r\n\r\n")],
    # No empty line between the headers and the text.
    "msg_35.txt": [(b"counter to", b"\r\ncounter to")],
    "msg_47.txt": [(b"/plain\r\nbar", b"/plain\r\n\r\nbar"), (b"/html\r\n<", b"/html\r\n\r\n<")],
    # Delimiters without a part between them are one.
    "msg_37.txt": [(_DELIMITER * 2 + _X_TWO + _DELIMITER * 4, _DELIMITER + _X_TWO + _DELIMITER)],
    # The inner multipart has no part at all.
    "msg_42.txt": [(b"\r\n--BBB--\r\n", b"\r\n")],
    # Delimiters of outer multiparts with blanks behind them, inside an inner part.
    "msg_38.txt": [
        (_INNER % (1, b" "), _INNER % (2, b"--") + b"\r\n" + _INNER % (1, b"") + b"\r\n"),
        (_INNER % (0, b" "), _INNER % (1, b"--") + b"\r\n" + _INNER % (0, b"") + b"\r\n"),
    ],
    # The first line of an mbox is no part of the email.
    "msg_25.txt": [(b"From MAILER-DAEMON Fri Apr 06 16:46:09 2001\r\n", b"")],
    "msg_43.txt": [
        (
            _BOUNCE,
            b"",
        )
    ],
}


def edited(data: bytes, edits: list[Edit]) -> bytes:
    for before, after in edits:
        assert data.count(before) == 1 or not before, before
        data = data.replace(before, after) if before else after + data
    return data


def wanted(name: str) -> bytes:
    """Return the email as it has to arrive, but for headers that are added."""
    _, mend = REFUSED.get(name, (None, []))
    return edited(source(name), mend)


def source(name: str) -> bytes:
    return normalise((CORPUS / name).read_bytes())


def names() -> list[str]:
    found = sorted(path.name for path in CORPUS.glob("msg_*.txt"))
    assert len(found) == 48
    return found


def arrives_as(found: Message[Any, Any], data: bytes) -> re.Pattern[bytes]:
    """Match the email with a Message-ID and a Date behind its headers where it lacks them."""
    head, gap, body = data.partition(b"\r\n\r\n")
    added = b"" if found["Message-ID"] else rb"\r\nMessage-ID: <[!-;=?-~]+>"
    added += b"" if found["Date"] else rb"\r\nDate: [ -:A-z]+"
    return re.compile(re.escape(head) + added + re.escape(gap + body), re.DOTALL)


@pytest.mark.long
@pytest.mark.parametrize("parser", PARSERS)
def test_every_email_of_the_corpus_arrives_byte_for_byte(
    sending: Shop, catcher: Catcher, parser: str
) -> None:
    for name in names():
        found = email.message_from_bytes(wanted(name), policy=PARSERS[parser])
        with sending.session() as session:
            row = sending.outbox.enqueue(found, session=session)
            session.commit()
        assert drain(sending.runtime) == 1
        assert sending.status(row.id) is Status.SENT, name
        arrived = catcher.emails[-1].content
        expected = edited(wanted(name), UNKEPT.get(name, []))
        assert arrives_as(found, expected).fullmatch(arrived), (name, arrived, expected)


@pytest.mark.matrix
@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.databases("sqlite")
def test_an_email_without_author_or_recipient_is_refused_by_name_and_rule(
    shop: Shop, parser: str, name: str
) -> None:
    found = email.message_from_bytes(source(name), policy=PARSERS[parser])
    with shop.session() as session, pytest.raises(InvalidMessage) as caught:
        shop.outbox.enqueue(found, session=session)
    assert (caught.value.field, caught.value.rule) == REFUSED[name][0]


@pytest.mark.parametrize("name", UNKEPT)
def test_what_is_not_kept_was_lost_by_the_parser_before_us(name: str) -> None:
    as_read = policy.compat32.clone(max_line_length=0)
    written = normalise(email.message_from_bytes(wanted(name)).as_bytes(policy=as_read))
    assert not written.startswith(b"From ")
    kept = edited(wanted(name), UNKEPT[name])
    assert written.partition(b"\r\n\r\n")[2] == kept.partition(b"\r\n\r\n")[2]
    assert kept != wanted(name)
