"""The rows of the content, of the reply to its final dot, and of what comes after a verdict."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

from outbox.domain.delivery.reply_table import Event
from tests.support.servers.smtp.scripted import close, drip, freeze, raw, reset, stall, take
from tests.support.servers.smtp.stateful import hang_up
from tests.support.shop.shop import message
from tests.support.verdicts.afterwards import AFTERWARDS, NEW, QUEUED
from tests.support.verdicts.case import (
    AT,
    FAIL,
    RETRY,
    SENT,
    SUSPECT,
    TLS,
    UNKNOWN,
    UNSENT,
    Case,
    Following,
    Recipient,
    TableRow,
    case,
)
from tests.support.verdicts.session import CREDENTIALS, SHORT

HOLD = {"OUTBOX_ON_UNKNOWN": "hold"}
PATIENT_ONLY_BEFORE = {"OUTBOX_DOT_TIMEOUT": 1.0}
OVER_TLS = TLS(config=CREDENTIALS | {"MAIL_USE_SSL": True})

_LIMITS = Path("/proc/sys/net/ipv4/tcp_wmem")
_BUFFER = int(_LIMITS.read_text().split()[2]) if _LIMITS.exists() else 16 * 2**20


def large() -> EmailMessage:
    """Return an email that the kernel does not take over as a whole."""
    mail = message("a@x.example", subject="the case")
    mail.add_attachment(b"x" * _BUFFER, maintype="application", subtype="pdf")
    return mail


BODY = (
    case(
        TableRow.BODY_LOST,
        "closed",
        {"BODY": take(100_000, close)},
        UNSENT,
        AT.BODY,
        event=Event.CLOSED,
        mail=large,
    ),
    case(
        TableRow.BODY_LOST,
        "frozen",
        {"BODY": freeze},
        UNSENT,
        AT.BODY,
        event=Event.TIMEOUT,
        mail=large,
        config=SHORT,
    ),
    case(
        TableRow.BODY_TORN,
        "reset when the dot was handed over",
        {"BODY": take(1, reset)},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        text="ConnectionResetError",
    ),
    case(
        TableRow.BODY_TORN,
        "reset under TLS",
        {"BODY": take(1, reset)},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        tls=OVER_TLS,
        offers=("AUTH PLAIN",),
    ),
)

DOT = (
    *(
        case(TableRow.DOT_ACCEPTED, line[:3], {".": line}, SENT, AT.DOT)
        for line in ("250 2.0.0 queued as 4XyZ", "251 2.1.5 forwarded", "299 2.9.9 sure")
    ),
    case(TableRow.DOT_ACCEPTED, "a bare code", {".": "250"}, SENT, AT.DOT, "250 "),
    case(
        TableRow.DOT_ACCEPTED,
        "several lines",
        {".": "250-2.0.0 queued\n250 2.0.0 as 1"},
        SENT,
        AT.DOT,
        "250 2.0.0 queued as 1",
    ),
    case(
        TableRow.DOT_ACCEPTED,
        "a text that is too long",
        {".": "250 2.0.0 " + "\u00e9\U0001f4ec" * 300},
        SENT,
        AT.DOT,
        "250 2.0.0 " + "\u00e9\U0001f4ec" * 250,
    ),
    case(
        TableRow.DOT_ACCEPTED,
        "250 and more that nobody asked for",
        {".": "250 2.0.0 queued\n250 2.0.0 again"},
        SENT,
        AT.DOT,
        QUEUED,
        alike=False,
        **NEW,
    ),
    case(TableRow.DOT_REFUSED, "4xx", {".": "451 4.3.0 later"}, RETRY, AT.DOT),
    case(TableRow.DOT_REFUSED, "5xx", {".": "554 5.7.1 spam"}, FAIL, AT.DOT),
    case(
        TableRow.DOT_REFUSED,
        "5xx, and Postfix takes the next MAIL for one in the same mail",
        {".": "554 5.7.1 over quota", "MAIL 2": "503 5.5.1 Error: nested MAIL command"},
        FAIL,
        AT.DOT,
        "554 5.7.1 over quota",
        following=Following.NEW,
    ),
    case(
        TableRow.DOT_REFUSED,
        "5xx after one recipient was put off",
        {"RCPT": "450 4.2.0 later", ".": "554 5.7.1 spam"},
        FAIL,
        AT.DOT,
        "554 5.7.1 spam",
        status="pending",
        delay=15.0,
        recipients=(
            Recipient(status="pending", reply="450 4.2.0 later"),
            Recipient(status="failed"),
        ),
    ),
    case(TableRow.OUT_OF_STEP, "dot 503", {".": "503 5.5.1 no"}, RETRY, AT.DOT, **NEW),
    case(TableRow.CLOSING, "dot", {".": "421 4.3.2 closing"}, SUSPECT, AT.DOT),
    case(TableRow.LOGIN_WANTED, "dot", {".": "530 5.7.0 no"}, SUSPECT, AT.DOT),
    case(
        TableRow.DOT_SILENT,
        "closed",
        {".": hang_up},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        text="the server closed the connection",
    ),
    case(
        TableRow.DOT_SILENT,
        "closed under hold",
        {".": hang_up},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        status="unknown",
        config=HOLD,
    ),
    case(TableRow.DOT_SILENT, "reset", {".": reset}, UNKNOWN, AT.DOT, event=Event.CLOSED),
    case(
        TableRow.DOT_SILENT,
        "closed under TLS",
        {".": hang_up},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        tls=OVER_TLS,
        offers=("AUTH PLAIN",),
    ),
    case(
        TableRow.DOT_SILENT,
        "no reply in time",
        {".": stall},
        UNKNOWN,
        AT.DOT,
        event=Event.TIMEOUT,
        config=PATIENT_ONLY_BEFORE,
    ),
    case(
        TableRow.DOT_SILENT,
        "slow drip",
        {".": drip(b"2")},
        UNKNOWN,
        AT.DOT,
        event=Event.TIMEOUT,
        config=PATIENT_ONLY_BEFORE,
    ),
    case(
        TableRow.DOT_SILENT,
        "garbage",
        {".": "Thanks!"},
        UNKNOWN,
        AT.DOT,
        event=Event.GARBAGE,
        text="this is not an SMTP reply: Thanks!",
    ),
    case(
        TableRow.DOT_SILENT,
        "over-long line",
        {".": raw(b"250 " + b"x" * 5000 + b"\r\n")},
        UNKNOWN,
        AT.DOT,
        event=Event.GARBAGE,
        text="a reply line of more than",
    ),
    case(
        TableRow.DOT_SILENT,
        "two codes in one reply",
        {".": raw(b"250-queued\r\n554 or not\r\n")},
        UNKNOWN,
        AT.DOT,
        event=Event.GARBAGE,
        text="a reply with two codes",
    ),
    case(TableRow.DOT_SILENT, "354", {".": "354 go on"}, UNKNOWN, AT.DOT, **NEW),
    case(
        TableRow.DOT_SILENT,
        "closed after one of two was refused: doubt is per recipient",
        {"RCPT": "550 5.1.1 unknown", ".": hang_up},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        recipients=(
            Recipient(status="failed", reply="550 5.1.1 unknown"),
            Recipient(status="unknown"),
        ),
    ),
    case(
        TableRow.DOT_SILENT,
        "closed after one of two was put off: it is not in doubt",
        {"RCPT": "450 4.2.0 later", ".": hang_up},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        recipients=(
            Recipient(status="pending", reply="450 4.2.0 later"),
            Recipient(status="unknown"),
        ),
    ),
)

CONTENT: tuple[Case, ...] = (*BODY, *DOT, *AFTERWARDS)
