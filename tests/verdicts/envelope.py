"""The rows of the envelope behind MAIL: RCPT and the DATA command."""

from __future__ import annotations

from outbox.domain.replies import Event
from tests.servers.scripted import raw, stall
from tests.servers.stateful import Says, hang_up
from tests.verdicts.afterwards import NEW
from tests.verdicts.case import (
    AT,
    FAIL,
    RETRY,
    SENT,
    SUSPECT,
    UNSENT,
    Case,
    Following,
    Recipient,
    TableRow,
    case,
)
from tests.verdicts.reverse_path import CLOSED, MAIL

RCPT = (
    case(TableRow.RCPT_REFUSED, "4xx", {"RCPT": "450 4.2.0 later"}, RETRY, AT.RCPT),
    case(TableRow.RCPT_REFUSED, "5xx", {"RCPT": "550 5.1.1 unknown"}, FAIL, AT.RCPT),
    case(
        TableRow.RCPT_REFUSED,
        "greylisted",
        {"RCPT": "451 4.7.1 greylisted, come back later"},
        RETRY,
        AT.RCPT,
        delay=63.0,
    ),
    case(
        TableRow.RCPT_REFUSED,
        "a disabled mailbox is no throttle",
        {"RCPT": "450 4.2.1 mailbox disabled"},
        RETRY,
        AT.RCPT,
    ),
    case(
        TableRow.RCPT_REFUSED,
        "452 for the first is its own",
        {"RCPT": "452 4.2.2 full"},
        RETRY,
        AT.RCPT,
    ),
    case(
        TableRow.RCPT_REFUSED,
        "a text that is hostile to terminals and databases",
        {"RCPT": raw(b"550-5.1.1 \x1b[31mno\x00\r\n550 5.1.1 such \xff user\r\n")},
        FAIL,
        AT.RCPT,
        "550 5.1.1 [31mno  such ? user",
    ),
    case(
        TableRow.RCPT_REFUSED,
        "some of three",
        {"RCPT": "550 5.1.1 unknown", "RCPT 2": "251 2.1.5 forwarded", "RCPT 3": "450 4.2.0 later"},
        SENT,
        AT.DOT,
        "250 2.0.0 queued",
        status="pending",
        delay=15.0,
        recipients=(
            Recipient(status="failed", reply="550 5.1.1 unknown"),
            Recipient(status="sent"),
            Recipient(status="pending", reply="450 4.2.0 later"),
        ),
    ),
    case(
        TableRow.RCPT_REFUSED,
        "one of two for good: sent",
        {"RCPT 2": "550 5.1.1 unknown"},
        SENT,
        AT.DOT,
        "250 2.0.0 queued",
        recipients=(
            Recipient(status="sent"),
            Recipient(status="failed", reply="550 5.1.1 unknown"),
        ),
    ),
    case(
        TableRow.RCPT_REFUSED,
        "both, one only for now",
        {"RCPT": "550 5.1.1 unknown", "RCPT 2": "450 4.2.0 later"},
        RETRY,
        AT.RCPT,
        "450 4.2.0 later",
        recipients=(
            Recipient(status="failed", reply="550 5.1.1 unknown"),
            Recipient(status="pending"),
        ),
    ),
    case(
        TableRow.RCPT_REFUSED,
        "both for good",
        {"RCPT": "550 5.1.1 unknown", "RCPT 2": "550 5.1.1 unknown"},
        FAIL,
        AT.RCPT,
        "550 5.1.1 unknown",
        recipients=(Recipient(status="failed"), Recipient(status="failed")),
    ),
    *(
        case(
            TableRow.TOO_MANY,
            line[:3],
            {"RCPT 2": line},
            SENT,
            AT.DOT,
            "250 2.0.0 queued",
            transactions=2,
            recipients=(Recipient(status="sent"),) * 3,
        )
        for line in ("452 4.5.3 too many recipients", "552 5.5.3 too many recipients")
    ),
    case(
        TableRow.CLOSING,
        "RCPT, after one was refused",
        {"RCPT": "550 5.1.1 unknown", "RCPT 2": "421 4.3.2 closing"},
        SUSPECT,
        AT.RCPT,
        "421 4.3.2 closing",
        recipients=(Recipient(status="pending"), Recipient(status="pending")),
    ),
    case(
        TableRow.OVERDUE,
        "RCPT",
        {"RCPT": stall},
        RETRY,
        AT.RCPT,
        event=Event.OVERDUE,
        text="longer than OUTBOX_TRANSACTION_TIMEOUT",
        config={"OUTBOX_TRANSACTION_TIMEOUT": 1.0},
        **NEW,
    ),
    case(TableRow.LOGIN_WANTED, "RCPT", {"RCPT": "530 5.7.0 no"}, SUSPECT, AT.RCPT),
    case(TableRow.OUT_OF_STEP, "RCPT 503", {"RCPT": "503 5.5.1 no"}, RETRY, AT.RCPT, **NEW),
    case(
        TableRow.OUT_OF_STEP,
        "RCPT 503 after one was refused",
        {"RCPT": "550 5.1.1 unknown", "RCPT 2": "503 5.5.1 no"},
        RETRY,
        AT.RCPT,
        "503 5.5.1 no",
        recipients=(
            Recipient(status="failed", reply="550 5.1.1 unknown"),
            Recipient(status="pending"),
        ),
        **NEW,
    ),
    case(
        TableRow.OUT_OF_STEP,
        "RCPT garbage",
        {"RCPT": "\x00\x01"},
        RETRY,
        AT.RCPT,
        event=Event.GARBAGE,
        **NEW,
    ),
    case(
        TableRow.LOST_EARLY,
        "RCPT closed, after one was refused",
        {"RCPT": "550 5.1.1 unknown", "RCPT 2": hang_up},
        UNSENT,
        AT.RCPT,
        event=Event.CLOSED,
        text=CLOSED,
        recipients=(Recipient(status="pending"), Recipient(status="pending")),
    ),
)

DATA = (
    case(TableRow.DATA_REFUSED, "4xx", {"DATA": "451 4.3.0 later"}, RETRY, AT.DATA),
    case(TableRow.DATA_REFUSED, "5xx", {"DATA": "554 5.7.1 no"}, FAIL, AT.DATA),
    case(
        TableRow.DATA_REFUSED,
        "5xx after one recipient was put off",
        {"RCPT": "450 4.2.0 later", "DATA": "554 5.7.1 no"},
        FAIL,
        AT.DATA,
        "554 5.7.1 no",
        status="pending",
        delay=15.0,
        recipients=(
            Recipient(status="pending", reply="450 4.2.0 later"),
            Recipient(status="failed"),
        ),
    ),
    case(TableRow.CLOSING, "DATA", {"DATA": "421 4.3.2 closing"}, SUSPECT, AT.DATA),
    case(TableRow.LOGIN_WANTED, "DATA", {"DATA": "530 5.7.0 no"}, SUSPECT, AT.DATA),
    case(TableRow.OUT_OF_STEP, "DATA 503", {"DATA": "503 5.5.1 no"}, RETRY, AT.DATA, **NEW),
    case(TableRow.OUT_OF_STEP, "DATA 250", {"DATA": "250 2.0.0 ok"}, RETRY, AT.DATA, **NEW),
    case(
        TableRow.OUT_OF_STEP,
        "DATA answered for the dot in advance",
        {"DATA": Says(reply="354 go on\n250 2.0.0 queued", then=stall)},
        RETRY,
        AT.DATA,
        event=Event.GARBAGE,
        text="the server replied before it was asked",
        **NEW,
    ),
    case(
        TableRow.LOST_EARLY,
        "DATA closed",
        {"DATA": hang_up},
        UNSENT,
        AT.DATA,
        event=Event.CLOSED,
        text=CLOSED,
    ),
    case(
        TableRow.LOST_LEASE,
        "after RCPT",
        {},
        UNSENT,
        AT.BODY,
        event=Event.LEASE,
        deliveries=0,
        delay=0.0,
        following=Following.LATER,
        lapses="RCPT",
    ),
)

ENVELOPE: tuple[Case, ...] = (*MAIL, *RCPT, *DATA)
