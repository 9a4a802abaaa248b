"""The rows of MAIL: what the server says of itself, of the sender, and of what an email needs."""

from __future__ import annotations

from email.message import EmailMessage

from outbox.domain.delivery.reply_table import Event
from tests.support.servers.smtp.scripted import stall
from tests.support.servers.smtp.stateful import hang_up
from tests.support.shop.shop import message
from tests.support.verdicts.afterwards import NEW
from tests.support.verdicts.case import (
    AT,
    FAIL,
    LACKING,
    RETRY,
    SUSPECT,
    UNSENT,
    Case,
    TableRow,
    case,
)
from tests.support.verdicts.session import SHORT

CLOSED = "the server closed the connection"
SES = "454 Throttling failure: Maximum sending rate exceeded."
TOO_MUCH = "450 4.7.1 Error: too much mail from 192.0.2.1"
TOO_MANY = "450 4.7.1 Error: too many recipients from 192.0.2.1"
GMAIL = "450 4.2.1 The user you are trying to contact is receiving mail at a rate that is too high"


def international() -> EmailMessage:
    return message("gr\u00fc\u00dfe@x.example", subject="the case")


def eight_bit() -> EmailMessage:
    """It is signed: nothing may encode it."""
    mail = message("a@x.example", subject="the case")
    mail.set_content("Gr\u00fc\u00dfe", cte="8bit")
    mail["DKIM-Signature"] = "v=1; d=shop.example; h=from; bh=x; b=y"
    return mail


MAIL: tuple[Case, ...] = (
    case(TableRow.MAIL_REFUSED, "4xx", {"MAIL": "450 4.1.8 later"}, RETRY, AT.MAIL),
    case(TableRow.MAIL_REFUSED, "5xx", {"MAIL": "550 5.1.8 no"}, FAIL, AT.MAIL),
    case(
        TableRow.MAIL_REFUSED,
        "4xx at the last attempt",
        {"MAIL": "450 4.1.8 later"},
        RETRY,
        AT.MAIL,
        status="failed",
        config={"OUTBOX_MAX_ATTEMPTS": 1},
    ),
    case(
        TableRow.MAIL_REFUSED,
        "4xx that names a time",
        {"MAIL": "451 4.4.5 try again in 300 seconds"},
        RETRY,
        AT.MAIL,
        delay=315.0,
    ),
    case(TableRow.MAIL_SYSTEM, "452", {"MAIL": "452 4.3.1 storage is full"}, SUSPECT, AT.MAIL),
    case(TableRow.MAIL_SYSTEM, "451", {"MAIL": "451 4.3.0 later"}, SUSPECT, AT.MAIL),
    case(TableRow.THROTTLED, "SES at MAIL", {"MAIL": SES}, SUSPECT, AT.MAIL),
    case(TableRow.THROTTLED, "SES at the dot", {".": SES}, SUSPECT, AT.DOT),
    case(TableRow.THROTTLED, "Gmail at RCPT", {"RCPT": GMAIL}, SUSPECT, AT.RCPT),
    case(TableRow.THROTTLED, "4xx at MAIL", {"MAIL": "451 4.4.5 too fast"}, SUSPECT, AT.MAIL),
    case(TableRow.THROTTLED, "Postfix at MAIL", {"MAIL": TOO_MUCH}, SUSPECT, AT.MAIL),
    case(TableRow.THROTTLED, "Postfix at RCPT", {"RCPT": TOO_MANY}, SUSPECT, AT.RCPT),
    case(
        TableRow.THROTTLED,
        "5xx at MAIL",
        {"MAIL": "550 5.4.5 Daily sending quota exceeded"},
        SUSPECT,
        AT.MAIL,
    ),
    case(TableRow.CLOSING, "MAIL", {"MAIL": "421 4.3.2 closing"}, SUSPECT, AT.MAIL),
    case(TableRow.LOGIN_WANTED, "MAIL", {"MAIL": "530 5.7.0 no"}, SUSPECT, AT.MAIL),
    case(TableRow.OUT_OF_STEP, "MAIL 503", {"MAIL": "503 5.5.1 no"}, RETRY, AT.MAIL, **NEW),
    case(TableRow.OUT_OF_STEP, "MAIL 354", {"MAIL": "354 go on"}, RETRY, AT.MAIL, **NEW),
    case(
        TableRow.OUT_OF_STEP,
        "MAIL garbage",
        {"MAIL": "what?"},
        RETRY,
        AT.MAIL,
        event=Event.GARBAGE,
        text="this is not an SMTP reply: what?",
        **NEW,
    ),
    case(
        TableRow.OUT_OF_STEP,
        "MAIL over-long line",
        {"MAIL": "250 " + "x" * 5000},
        RETRY,
        AT.MAIL,
        event=Event.GARBAGE,
        text="a reply line of more than",
        **NEW,
    ),
    case(
        TableRow.LOST_EARLY,
        "MAIL closed",
        {"MAIL": hang_up},
        UNSENT,
        AT.MAIL,
        event=Event.CLOSED,
        text=CLOSED,
    ),
    case(
        TableRow.LOST_EARLY,
        "MAIL silent",
        {"MAIL": stall},
        UNSENT,
        AT.MAIL,
        event=Event.TIMEOUT,
        config=SHORT,
    ),
    case(
        TableRow.MALFORMED,
        "a line break in a recipient",
        {},
        FAIL,
        AT.MAIL,
        event=Event.MALFORMED,
        text="must not contain white space",
        altered_to="a@x.example>\r\nRCPT TO:<b@x.example",
    ),
    case(
        TableRow.LACKING,
        "SMTPUTF8",
        {},
        LACKING,
        AT.MAIL,
        event=Event.LACKING,
        text="does not offer SMTPUTF8",
        lacks=("SMTPUTF8",),
        mail=international,
    ),
    case(
        TableRow.LACKING,
        "8BITMIME",
        {},
        LACKING,
        AT.MAIL,
        event=Event.LACKING,
        text="does not offer 8BITMIME",
        lacks=("8BITMIME",),
        mail=eight_bit,
    ),
    case(
        TableRow.LACKING,
        "SIZE",
        {},
        LACKING,
        AT.MAIL,
        event=Event.LACKING,
        text="octets and the server takes 5000 (SIZE)",
        lacks=("SIZE",),
        offers=("SIZE 5000",),
        mail=lambda: message("a@x.example", text="x" * 60 * 100),
    ),
)
