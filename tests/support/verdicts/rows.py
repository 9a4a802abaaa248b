"""The rows that several files have cases of, each as what builds one: it says what they share."""

from __future__ import annotations

from functools import partial
from typing import Any

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Phase, Verdict
from tests.support.verdicts.case import (
    AT,
    LATER,
    NO,
    QUEUED,
    Case,
    Following,
    Recipient,
    TableRow,
    case,
)

NEW: dict[str, Any] = {"following": Following.NEW}
DELIVERED: dict[str, Any] = {"verdict": Verdict.SENT, "phase": AT.DOT, "reply": QUEUED}
"""The email is sent, whatever befell a recipient or the connection."""
GOES_AGAIN: dict[str, Any] = {"status": "pending", "delay": 15.0}
"""The email waits, whatever its verdict: a recipient was put off."""

TAKEN = Recipient(status="sent")
REFUSED = Recipient(status="failed", reply=NO)
PUT_OFF = Recipient(status="pending", reply=LATER)

closing = partial(case, TableRow.CLOSING, verdict=Verdict.SUSPECT)
login_wanted = partial(case, TableRow.LOGIN_WANTED, verdict=Verdict.SUSPECT)
out_of_step = partial(case, TableRow.OUT_OF_STEP, verdict=Verdict.RETRY, following=Following.NEW)
lost_early = partial(case, TableRow.LOST_EARLY, verdict=Verdict.UNSENT)
throttled = partial(case, TableRow.THROTTLED, verdict=Verdict.SUSPECT, attempts=0, delay=5.0)
too_fast = partial(case, TableRow.TOO_FAST, verdict=Verdict.SUSPECT)
rcpt_refused = partial(case, TableRow.RCPT_REFUSED, phase=AT.RCPT)
refused_early = partial(
    case, TableRow.REFUSED_EARLY, attempts=0, crashes=0, delay=30.0, following=Following.NEW
)
"""Three recipients: one was accepted and one refused before the server hung up."""
data_refused = partial(case, TableRow.DATA_REFUSED, phase=AT.DATA)
dot_accepted = partial(case, TableRow.DOT_ACCEPTED, verdict=Verdict.SENT, phase=AT.DOT)
dot_silent = partial(case, TableRow.DOT_SILENT, verdict=Verdict.UNKNOWN, phase=AT.DOT)
dot_closed = partial(dot_silent, event=Event.CLOSED)
idle = partial(
    case,
    TableRow.IDLE,
    verdict=Verdict.SENT,
    phase=AT.DOT,
    reply=QUEUED,
    following=Following.NEW,
)


def of_any_command(command: str, phase: Phase) -> tuple[Case, ...]:
    """Return what a server may say to any command of an email, this one."""
    name = "dot" if command == "." else command
    return (
        closing(name, {command: "421 4.3.2 closing"}, phase=phase),
        login_wanted(name, {command: "530 5.7.0 no"}, phase=phase),
        out_of_step(f"{name} 503", {command: "503 5.5.1 no"}, phase=phase),
    )
