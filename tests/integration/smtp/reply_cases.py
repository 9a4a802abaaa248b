"""The table of replies as cases, up to the recipients: what a server does, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outbox.domain.delivery.transaction import Phase, Verdict
from tests.support.servers.smtp.scripted import (
    AT_DOT,
    AT_RCPT,
    GREET,
    HELLO,
    RSET,
    Script,
    close,
    expect,
    raw,
    say,
    serve,
)

SENT, RETRY, FAIL, UNKNOWN, HALT, SUSPECT, UNSENT, NEXT = (
    Verdict.SENT,
    Verdict.RETRY,
    Verdict.FAIL,
    Verdict.UNKNOWN,
    Verdict.HALT,
    Verdict.SUSPECT,
    Verdict.UNSENT,
    Verdict.NEXT,
)
GMAIL = "450-4.2.1 The user is receiving mail\n450 4.2.1 at a rate too high"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: what the server does, what the email becomes, what the next email finds."""

    name: str
    script: Script
    verdict: Verdict
    phase: Phase
    recipients: tuple[Verdict, ...] = ()  # () says: one recipient, with the email's verdict
    renewed: bool = False  # the next email goes over a new connection
    alert: bool = False
    retry_after: float | None = None


def row(
    name: str, script: Script, verdict: Verdict, phase: Phase, *recipients: Verdict, **more: Any
) -> Case:
    return Case(
        name=name, script=script, verdict=verdict, phase=phase, recipients=recipients, **more
    )


def greeted(*steps: object) -> Script:
    return (*HELLO, *steps)  # type: ignore[arg-type]


def at_rcpt(*replies: str) -> Script:
    return (*AT_RCPT, *(expect("RCPT", reply) for reply in replies))


def at_dot(*steps: object) -> Script:
    return (*AT_DOT, *steps)  # type: ignore[arg-type]


AT = Phase
ENVELOPE_CASES = (
    # -- the session
    row("greeting 4xx", [say("450 busy")], HALT, AT.GREETING, renewed=True),
    row("greeting 5xx", [say("554 no")], HALT, AT.GREETING, renewed=True),
    row("greeting closed", [close], HALT, AT.GREETING, renewed=True),
    row("greeting garbage", [raw(b"hello\r\n")], HALT, AT.GREETING, renewed=True),
    row("EHLO 4xx", [GREET, expect("EHLO", "451 no")], HALT, AT.EHLO, renewed=True),
    row(
        "EHLO 5xx, HELO 5xx",
        [GREET, expect("EHLO", "502 what"), expect("HELO", "550 no")],
        HALT,
        AT.EHLO,
        renewed=True,
    ),
    row(
        "EHLO 5xx, HELO fine",
        [GREET, expect("EHLO", "502 what"), expect("HELO", "250 hi"), serve],
        SENT,
        AT.DOT,
    ),
    # -- MAIL
    row("MAIL 4xx", greeted(expect("MAIL", "451 later"), serve), RETRY, AT.MAIL),
    row("MAIL 5xx", greeted(expect("MAIL", "550 no"), serve), FAIL, AT.MAIL),
    row("MAIL 421", greeted(expect("MAIL", "421 bye")), SUSPECT, AT.MAIL, renewed=True),
    row(
        "MAIL 530",
        greeted(expect("MAIL", "530 5.7.0 AUTH first")),
        SUSPECT,
        AT.MAIL,
        renewed=True,
        alert=True,
    ),
    row("MAIL 4.3.x", greeted(expect("MAIL", "452 4.3.1 full")), SUSPECT, AT.MAIL, renewed=True),
    row(
        "MAIL throttled",
        greeted(expect("MAIL", "454 Throttling failure: Maximum sending rate exceeded.")),
        SUSPECT,
        AT.MAIL,
        renewed=True,
    ),
    row("MAIL 503", greeted(expect("MAIL", "503 what")), RETRY, AT.MAIL, renewed=True),
    row("MAIL 354", greeted(expect("MAIL", "354 go")), RETRY, AT.MAIL, renewed=True),
    row("MAIL garbage", greeted(expect("MAIL", "what?")), RETRY, AT.MAIL, renewed=True),
    row("MAIL closed", greeted(expect("MAIL", None), close), UNSENT, AT.MAIL, renewed=True),
    row(
        "MAIL greylisted",
        greeted(expect("MAIL", "451 4.7.1 Greylisted, come back later"), serve),
        RETRY,
        AT.MAIL,
        retry_after=60.0,
    ),
    # -- RCPT
    row(
        "RCPT 4xx for the only one",
        (*at_rcpt("450 try again in 300 seconds"), RSET, serve),
        RETRY,
        AT.RCPT,
        retry_after=300.0,
    ),
    row("RCPT 5xx for the only one", (*at_rcpt("550 no"), RSET, serve), FAIL, AT.RCPT),
    row(
        "RCPT all refused, one only for now",
        (*at_rcpt("550 no", "450 later"), RSET, serve),
        RETRY,
        AT.RCPT,
        FAIL,
        RETRY,
    ),
    row(
        "RCPT some refused",
        (*at_rcpt("550 no", "251 forwarded", "450 later"), serve),
        SENT,
        AT.DOT,
        FAIL,
        SENT,
        RETRY,
    ),
    row(
        "RCPT 452 after an accepted one",
        (*at_rcpt("250 ok", "452 4.5.3 too many"), serve),
        SENT,
        AT.DOT,
        SENT,
        NEXT,
        NEXT,
    ),
    row(
        "RCPT 552 after an accepted one",
        (*at_rcpt("250 ok", "552 too many"), serve),
        SENT,
        AT.DOT,
        SENT,
        NEXT,
    ),
    row("RCPT 452 for the first", (*at_rcpt("452 full"), RSET, serve), RETRY, AT.RCPT),
    row("RCPT 421", at_rcpt("250 ok", "421 bye"), SUSPECT, AT.RCPT, SUSPECT, SUSPECT, renewed=True),
    row(
        "RCPT 421 keeps earlier refusals for good",
        at_rcpt("550 no", "450 later", "421 bye"),
        SUSPECT,
        AT.RCPT,
        FAIL,
        SUSPECT,
        SUSPECT,
        SUSPECT,
        renewed=True,
    ),
    row(
        "RCPT closed keeps earlier refusals for good",
        (*at_rcpt("550 no", "250 ok"), close),
        UNSENT,
        AT.RCPT,
        FAIL,
        UNSENT,
        UNSENT,
        renewed=True,
    ),
    row(
        "RCPT throttled for one of three",
        (*at_rcpt("250 ok", GMAIL, "250 ok"), serve),
        SENT,
        AT.DOT,
        SENT,
        RETRY,
        SENT,
    ),
    row(
        "RCPT throttled for the first of two",
        (*at_rcpt(GMAIL, "250 ok"), serve),
        SENT,
        AT.DOT,
        RETRY,
        SENT,
    ),
    row(
        "RCPT throttled for both",
        at_rcpt(GMAIL, GMAIL),
        SUSPECT,
        AT.RCPT,
        SUSPECT,
        SUSPECT,
        renewed=True,
    ),
    row(
        "RCPT throttled and refused",
        at_rcpt(GMAIL, "550 no"),
        SUSPECT,
        AT.RCPT,
        SUSPECT,
        FAIL,
        renewed=True,
    ),
    row(
        "RCPT throttled and closed",
        (*at_rcpt("250 ok", GMAIL), close),
        SUSPECT,
        AT.RCPT,
        SUSPECT,
        SUSPECT,
        SUSPECT,
        renewed=True,
    ),
    row(
        "RCPT Gmail's throttle",
        at_rcpt(GMAIL),
        SUSPECT,
        AT.RCPT,
        renewed=True,
    ),
    row(
        "RCPT 503 keeps earlier refusals",
        at_rcpt("550 no", "503 what"),
        RETRY,
        AT.RCPT,
        FAIL,
        RETRY,
        renewed=True,
    ),
    row("RCPT garbage", at_rcpt("\x00\x01"), RETRY, AT.RCPT, renewed=True),
    row("RCPT closed", (*AT_RCPT, close), UNSENT, AT.RCPT, renewed=True),
    row(
        "RCPT refused and anything odd at RSET",
        (*at_rcpt("550 no"), expect("RSET", "500 what")),
        FAIL,
        AT.RCPT,
        renewed=True,
    ),
    row(
        "RCPT refused and closed at RSET",
        (*at_rcpt("550 no"), expect("RSET", None), close),
        FAIL,
        AT.RCPT,
        renewed=True,
    ),
    # -- the DATA command
)
