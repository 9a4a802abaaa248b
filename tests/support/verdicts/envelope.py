"""The rows of the envelope behind MAIL: RCPT and the DATA command."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Verdict
from tests.support.servers.smtp.scripted import raw, stall
from tests.support.servers.smtp.stateful import Says, hang_up
from tests.support.verdicts import rows
from tests.support.verdicts.case import AT, LATER, NO, Case, Following, Recipient, TableRow, case
from tests.support.verdicts.reverse_path import (
    CLOSED,
    GMAIL,
    GODADDY,
    MAIL,
    STALWART,
    TOO_MANY,
    WILDDUCK,
)

CLOSING = "421 4.3.2 closing"
THROTTLED = Recipient(status="pending", reply=GMAIL)
WAITS = Recipient(status="pending")
ONE_REFUSED = (WAITS, rows.REFUSED, WAITS)
given_back = partial(case, answers={}, verdict=Verdict.UNSENT, crashes=0, following=Following.LATER)

RCPT = (
    rows.rcpt_refused("4xx", {"RCPT": LATER}, Verdict.RETRY),
    rows.rcpt_refused("5xx", {"RCPT": NO}, Verdict.FAIL),
    rows.rcpt_refused(
        "greylisted", {"RCPT": "451 4.7.1 greylisted, come back later"}, Verdict.RETRY, delay=63.0
    ),
    rows.rcpt_refused(
        "a disabled mailbox is no throttle", {"RCPT": "450 4.2.1 mailbox disabled"}, Verdict.RETRY
    ),
    rows.rcpt_refused("452 for the first is its own", {"RCPT": "452 4.2.2 full"}, Verdict.RETRY),
    rows.rcpt_refused(
        "a full mailbox, without an enhanced code",
        {"RCPT": "452 Mailbox quota exceeded"},
        Verdict.RETRY,
    ),
    rows.rcpt_refused(
        "a text that is hostile to terminals and databases",
        {"RCPT": raw(b"550-5.1.1 \x1b[31mno\x00\r\n550 5.1.1 such \xff user\r\n")},
        Verdict.FAIL,
        reply="550 5.1.1 [31mno  such ? user",
    ),
    case(
        TableRow.RCPT_REFUSED,
        "some of three",
        {"RCPT": NO, "RCPT 2": "251 2.1.5 forwarded", "RCPT 3": LATER},
        **rows.DELIVERED,
        **rows.GOES_AGAIN,
        recipients=(rows.REFUSED, rows.TAKEN, rows.PUT_OFF),
    ),
    case(
        TableRow.RCPT_REFUSED,
        "one of two for good: sent",
        {"RCPT 2": NO},
        **rows.DELIVERED,
        recipients=(rows.TAKEN, rows.REFUSED),
    ),
    rows.rcpt_refused(
        "both, one only for now",
        {"RCPT": NO, "RCPT 2": LATER},
        Verdict.RETRY,
        reply=LATER,
        recipients=(rows.REFUSED, Recipient(status="pending")),
    ),
    rows.rcpt_refused(
        "both for good",
        {"RCPT": NO, "RCPT 2": NO},
        Verdict.FAIL,
        reply=NO,
        recipients=(Recipient(status="failed"), Recipient(status="failed")),
    ),
    *(
        case(
            TableRow.TOO_MANY,
            name,
            {"RCPT 2": line},
            **rows.DELIVERED,
            transactions=2,
            recipients=(rows.TAKEN,) * 3,
        )
        for name, line in (
            ("452", "452 4.5.3 too many recipients"),
            ("552", "552 5.5.3 too many recipients"),
            ("450", "450 4.5.3 too many recipients"),
            ("550", "550 5.5.3 too many recipients"),
            ("Postfix's limit on a client", TOO_MANY),
            ("GoDaddy's limit on a client", GODADDY),
        )
    ),
    rows.closing("RCPT", {"RCPT": CLOSING}, phase=AT.RCPT),
    rows.closing(
        "RCPT, after errors: charged to nobody",
        {"RCPT": "421 4.7.0 mx.example Error: too many errors"},
        phase=AT.RCPT,
        attempts=0,
        delay=5.0,
    ),
    rows.closing(
        "RCPT, after one was accepted",
        {"RCPT 2": CLOSING},
        phase=AT.RCPT,
        recipients=(WAITS, WAITS),
    ),
    rows.closing(
        "RCPT, after one was put off",
        {"RCPT": LATER, "RCPT 2": CLOSING},
        phase=AT.RCPT,
        reply=CLOSING,
        recipients=(WAITS, WAITS),
    ),
    rows.refused_early(
        "421 at RCPT",
        {"RCPT 2": NO, "RCPT 3": CLOSING},
        Verdict.SUSPECT,
        AT.RCPT,
        CLOSING,
        recipients=ONE_REFUSED,
    ),
    rows.refused_early(
        "closed at RCPT",
        {"RCPT 2": NO, "RCPT 3": hang_up},
        Verdict.UNSENT,
        AT.RCPT,
        event=Event.CLOSED,
        text=CLOSED,
        recipients=ONE_REFUSED,
    ),
    rows.refused_early(
        "421 at DATA",
        {"RCPT 2": NO, "DATA": CLOSING},
        Verdict.SUSPECT,
        AT.DATA,
        CLOSING,
        recipients=ONE_REFUSED,
    ),
    rows.refused_early(
        "421 at the dot",
        {"RCPT 2": NO, ".": CLOSING},
        Verdict.SUSPECT,
        AT.DOT,
        CLOSING,
        recipients=ONE_REFUSED,
    ),
    *(
        case(
            TableRow.THROTTLED_ALONE,
            name,
            answers,
            **rows.DELIVERED,
            **rows.GOES_AGAIN,
            recipients=recipients,
        )
        for name, answers, recipients in (
            ("Gmail", {"RCPT 2": GMAIL}, (rows.TAKEN, THROTTLED)),
            ("Gmail, the first of two", {"RCPT": GMAIL}, (THROTTLED, rows.TAKEN)),
            ("with 5xx", {"RCPT 2": WILDDUCK}, (rows.TAKEN, replace(THROTTLED, reply=WILDDUCK))),
        )
    ),
    *(
        rows.throttled(name, {"RCPT": line}, phase=AT.RCPT)
        for name, line in (("Stalwart", STALWART), ("WildDuck", WILDDUCK), ("GoDaddy", GODADDY))
    ),
    rows.too_fast(
        "both recipients",
        {"RCPT": GMAIL, "RCPT 2": GMAIL},
        phase=AT.RCPT,
        reply=GMAIL,
        recipients=(WAITS, WAITS),
    ),
    rows.too_fast(
        "at RCPT, and closed",
        {"RCPT": GMAIL, "RCPT 2": hang_up},
        phase=AT.RCPT,
        reply=GMAIL,
        recipients=(WAITS, WAITS),
    ),
    case(
        TableRow.TOO_LONG,
        "RCPT",
        {"RCPT": stall},
        Verdict.RETRY,
        AT.RCPT,
        event=Event.TOO_LONG,
        text="longer than OUTBOX_TRANSACTION_TIMEOUT",
        config={"OUTBOX_TRANSACTION_TIMEOUT": 1.0},
        **rows.NEW,
    ),
    rows.login_wanted("RCPT", {"RCPT": "530 5.7.0 no"}, phase=AT.RCPT),
    rows.out_of_step("RCPT 503", {"RCPT": "503 5.5.1 no"}, phase=AT.RCPT),
    rows.out_of_step(
        "RCPT 503 after one was refused",
        {"RCPT": NO, "RCPT 2": "503 5.5.1 no"},
        phase=AT.RCPT,
        reply="503 5.5.1 no",
        recipients=(rows.REFUSED, Recipient(status="pending")),
    ),
    rows.out_of_step("RCPT garbage", {"RCPT": "\x00\x01"}, phase=AT.RCPT, event=Event.GARBAGE),
    rows.lost_early(
        "RCPT closed", {"RCPT": hang_up}, phase=AT.RCPT, event=Event.CLOSED, text=CLOSED
    ),
)

DATA = (
    rows.data_refused("4xx", {"DATA": "451 4.3.0 later"}, Verdict.RETRY),
    rows.data_refused("5xx", {"DATA": "554 5.7.1 no"}, Verdict.FAIL),
    rows.data_refused(
        "5xx after one recipient was put off",
        {"RCPT": LATER, "DATA": "554 5.7.1 no"},
        Verdict.FAIL,
        reply="554 5.7.1 no",
        **rows.GOES_AGAIN,
        recipients=(rows.PUT_OFF, Recipient(status="failed")),
    ),
    *rows.of_any_command("DATA", AT.DATA),
    rows.out_of_step("DATA 250", {"DATA": "250 2.0.0 ok"}, phase=AT.DATA),
    rows.out_of_step(
        "DATA answered for the dot in advance",
        {"DATA": Says(reply="354 go on\n250 2.0.0 queued", then=stall)},
        phase=AT.DATA,
        event=Event.GARBAGE,
        text="the server replied before it was asked",
    ),
    rows.lost_early(
        "DATA closed", {"DATA": hang_up}, phase=AT.DATA, event=Event.CLOSED, text=CLOSED
    ),
    given_back(
        TableRow.GIVEN_UP,
        "RCPT",
        phase=AT.RCPT,
        event=Event.GIVEN_UP,
        config={"OUTBOX_COMMAND_TIMEOUT": 300.0},
        silent_at="RCPT",
    ),
    given_back(
        TableRow.LOST_LEASE,
        "after RCPT",
        phase=AT.BODY,
        event=Event.LEASE,
        delay=0.0,
        lapses="RCPT",
    ),
)

ENVELOPE: tuple[Case, ...] = (*MAIL, *RCPT, *DATA)
