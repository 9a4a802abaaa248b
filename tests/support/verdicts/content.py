"""The rows of the content, of the reply to its final dot, and of what comes after a verdict."""

from __future__ import annotations

from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Verdict
from tests.support.servers.smtp.scripted import close, drip, freeze, raw, reset, stall, take
from tests.support.servers.smtp.stateful import hang_up
from tests.support.shop.shop import message
from tests.support.verdicts import rows
from tests.support.verdicts.afterwards import AFTERWARDS
from tests.support.verdicts.case import AT, LATER, NO, QUEUED, TLS, Case, Recipient, TableRow, case
from tests.support.verdicts.session import CREDENTIALS, SHORT

HOLD = {"OUTBOX_ON_UNKNOWN": "hold"}
PATIENT_ONLY_BEFORE = {"OUTBOX_DOT_TIMEOUT": 1.0}
OVER_TLS: dict[str, Any] = {
    "tls": TLS(config=CREDENTIALS | {"MAIL_USE_SSL": True}),
    "offers": ("AUTH PLAIN",),
}

_LIMITS = Path("/proc/sys/net/ipv4/tcp_wmem")
_BUFFER = int(_LIMITS.read_text().split()[2]) if _LIMITS.exists() else 16 * 2**20


def large() -> EmailMessage:
    """Return an email that the kernel does not take over as a whole."""
    mail = message("a@x.example", subject="the case")
    mail.add_attachment(b"x" * _BUFFER, maintype="application", subtype="pdf")
    return mail


TORN = {"BODY": take(1, reset)}
body_lost = partial(case, TableRow.BODY_LOST, verdict=Verdict.UNSENT, phase=AT.BODY, mail=large)
body_torn = partial(
    case, TableRow.BODY_TORN, verdict=Verdict.UNKNOWN, phase=AT.DOT, event=Event.CLOSED
)
dot_refused = partial(case, TableRow.DOT_REFUSED, phase=AT.DOT)
dot_late = partial(rows.dot_silent, event=Event.TIMEOUT, config=PATIENT_ONLY_BEFORE)
dot_garbage = partial(rows.dot_silent, event=Event.GARBAGE)

BODY = (
    body_lost("closed", {"BODY": take(100_000, close)}, event=Event.CLOSED),
    body_lost("frozen", {"BODY": freeze}, event=Event.TIMEOUT, config=SHORT),
    body_torn("reset when the dot was handed over", TORN, text="ConnectionResetError"),
    body_torn("reset under TLS", TORN, **OVER_TLS),
)

DOT = (
    *(
        rows.dot_accepted(line[:3], {".": line})
        for line in ("250 2.0.0 queued as 4XyZ", "251 2.1.5 forwarded", "299 2.9.9 sure")
    ),
    rows.dot_accepted("a bare code", {".": "250"}, reply="250 "),
    rows.dot_accepted(
        "several lines", {".": "250-2.0.0 queued\n250 2.0.0 as 1"}, reply="250 2.0.0 queued as 1"
    ),
    rows.dot_accepted(
        "a text that is too long",
        {".": "250 2.0.0 " + "\u00e9\U0001f4ec" * 300},
        reply="250 2.0.0 " + "\u00e9\U0001f4ec" * 250,
    ),
    rows.dot_accepted(
        "250 and more that nobody asked for",
        {".": "250 2.0.0 queued\n250 2.0.0 again"},
        reply=QUEUED,
        alike=False,
        **rows.NEW,
    ),
    dot_refused("4xx", {".": "451 4.3.0 later"}, Verdict.RETRY),
    dot_refused("5xx", {".": "554 5.7.1 spam"}, Verdict.FAIL),
    dot_refused(
        "5xx, and Postfix takes the next MAIL for one in the same mail",
        {".": "554 5.7.1 over quota", "MAIL 2": "503 5.5.1 Error: nested MAIL command"},
        Verdict.FAIL,
        reply="554 5.7.1 over quota",
        **rows.NEW,
    ),
    dot_refused(
        "5xx after one recipient was put off",
        {"RCPT": LATER, ".": "554 5.7.1 spam"},
        Verdict.FAIL,
        reply="554 5.7.1 spam",
        **rows.GOES_AGAIN,
        recipients=(rows.PUT_OFF, Recipient(status="failed")),
    ),
    *rows.of_any_command(".", AT.DOT),
    rows.dot_closed("closed", {".": hang_up}, text="the server closed the connection"),
    rows.dot_closed("closed under hold", {".": hang_up}, status="unknown", config=HOLD),
    rows.dot_closed("reset", {".": reset}),
    rows.dot_closed("closed under TLS", {".": hang_up}, **OVER_TLS),
    dot_late("no reply in time", {".": stall}),
    dot_late("slow drip", {".": drip(b"2")}),
    dot_garbage("garbage", {".": "Thanks!"}, text="this is not an SMTP reply: Thanks!"),
    dot_garbage(
        "over-long line",
        {".": raw(b"250 " + b"x" * 5000 + b"\r\n")},
        text="a reply line of more than",
    ),
    dot_garbage(
        "two codes in one reply",
        {".": raw(b"250-queued\r\n554 or not\r\n")},
        text="a reply with two codes",
    ),
    rows.dot_silent("354", {".": "354 go on"}, **rows.NEW),
    rows.dot_closed(
        "closed after one of two was refused: doubt is per recipient",
        {"RCPT": NO, ".": hang_up},
        recipients=(rows.REFUSED, Recipient(status="unknown")),
    ),
    rows.dot_closed(
        "closed after one of two was put off: it is not in doubt",
        {"RCPT": LATER, ".": hang_up},
        recipients=(rows.PUT_OFF, Recipient(status="unknown")),
    ),
)

CONTENT: tuple[Case, ...] = (*BODY, *DOT, *AFTERWARDS)
