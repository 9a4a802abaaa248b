"""One row of the verdict table as a case: what the server does, and what must come of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.message import EmailMessage
from enum import StrEnum
from typing import Any

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from tests.support.servers.smtp.stateful import Answer

LEASE = 60.0  # seconds
AT = Phase
QUEUED, NO, LATER = "250 2.0.0 queued", "550 5.1.1 unknown", "450 4.2.0 later"


class TableRow(StrEnum):
    """The rows of the table, as phase | event | verdict. Every case names the one it shows."""

    CONNECT = "resolve, connect, greeting | error, time-out, 4xx, 5xx | HALT"
    EHLO = "EHLO | 4xx, 5xx | HELO on 5xx, else HALT"
    STARTTLS = "STARTTLS | missing, 454, handshake error | HALT, never in clear"
    UNVERIFIED = "connect, STARTTLS | certificate error | HALT with an alert"
    AUTH_4XX = "AUTH | 4xx | HALT"
    AUTH_REFUSED = "AUTH | 535, or AUTH not offered | HALT with an alert and a long pause"
    CLOSING = "MAIL, RCPT, DATA, dot | 421 | SUSPECT, close"
    LOGIN_WANTED = "MAIL, RCPT, DATA, dot | 530 | SUSPECT with an alert"
    MAIL_REFUSED = "MAIL | 4xx / 5xx | RETRY / FAIL"
    MAIL_SYSTEM = "MAIL | 452, 4.3.x: the mail system's own trouble | SUSPECT"
    THROTTLED = "MAIL, RCPT, DATA, dot | a throttle text | SUSPECT, charged to nobody"
    TOO_FAST = "RCPT | 450 4.2.1, this mailbox gets too much | SUSPECT"
    RCPT_REFUSED = "RCPT | 4xx / 5xx | that recipient: RETRY / FAIL"
    REFUSED_EARLY = "RCPT | 5xx, and then a 421 or closed | that recipient: FAIL; the rest later"
    THROTTLED_ALONE = "RCPT | a throttle text while another one is accepted | that recipient: RETRY"
    TOO_MANY = "RCPT | 452, 552, x.5.3 or a client's limit after an accepted one | the rest: next"
    DATA_REFUSED = "DATA command | 4xx / 5xx | RETRY / FAIL, then RSET or close"
    OUT_OF_STEP = "any | 503, a 3xx out of place, garbage | RETRY on a new connection"
    LOST_EARLY = "before the final dot | closed, time-out | given back, uncharged"
    TOO_LONG = "before the final dot | the transaction takes too long | RETRY on a new connection"
    GIVEN_UP = "MAIL, RCPT, DATA | silence, while others wait | waits behind, uncharged"
    LOST_LEASE = "before the content | our lease is lost | given back, no breaker"
    BODY_LOST = "body | lost before the dot was handed over | given back, bounded by crashes"
    BODY_TORN = "body | an error in or after a write that holds the final dot | UNKNOWN"
    DOT_ACCEPTED = "after the final dot | 2xx, by its first digit | SENT"
    DOT_REFUSED = "after the final dot | 4xx / 5xx | RETRY / FAIL"
    DOT_SILENT = "after the final dot | lost, time-out, garbage | UNKNOWN"
    FAREWELL = "RSET, QUIT | anything at all | the verdict stands; close"
    IDLE = "reuse of an idle connection | 421 or end of file before MAIL | reconnect, uncharged"
    MALFORMED = "before MAIL | the row's envelope makes no command line | FAIL"
    LACKING = "before MAIL | needs SMTPUTF8, 8BITMIME or SIZE | waits behind, with an alert"


class Following(StrEnum):
    """How the next email of the same worker goes out, over a clean dialogue in any case."""

    SAME = "over the same connection"
    NEW = "over a new connection"
    EITHER = "over the same connection or a new one"
    LATER = "given back uncharged, and later over a new connection"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What stands in the email's row. `delay` is in seconds where the random source says 0.5."""

    status: str
    attempts: int = 0
    crashes: int = 0
    unknown_count: int = 0
    delay: float = 0.0


OUTCOMES: Mapping[Verdict, Outcome] = {
    Verdict.SENT: Outcome(status="sent", attempts=1),
    Verdict.RETRY: Outcome(status="pending", attempts=1, delay=15.0),
    Verdict.FAIL: Outcome(status="failed", attempts=1),
    Verdict.UNKNOWN: Outcome(status="pending", attempts=1, unknown_count=1, delay=15.0),
    Verdict.HALT: Outcome(status="pending"),
    Verdict.SUSPECT: Outcome(status="pending", attempts=1, delay=15.0),  # the next email is taken
    Verdict.LACKING: Outcome(status="pending", delay=5.0),
    Verdict.UNSENT: Outcome(status="pending", crashes=1, delay=30.0),
}
FOLLOWING: Mapping[Verdict, Following] = {
    Verdict.SENT: Following.SAME,
    Verdict.RETRY: Following.SAME,
    Verdict.FAIL: Following.SAME,
    Verdict.UNKNOWN: Following.NEW,
    Verdict.HALT: Following.LATER,
    Verdict.SUSPECT: Following.NEW,
    Verdict.LACKING: Following.SAME,
    Verdict.UNSENT: Following.NEW,
}


@dataclass(frozen=True, kw_only=True)
class Recipient:
    """One of several recipients: its outcome, and its reply where that is not the email's."""

    status: str
    reply: str = ""


@dataclass(frozen=True, kw_only=True)
class TLS:
    """How the app asks for TLS, and what the server shows."""

    config: Mapping[str, object]
    certificate: str = "server"
    trusted: bool = True


@dataclass(frozen=True, kw_only=True)
class Case:
    """What one server does to an email, and what must come of it and of the next email."""

    row: TableRow
    name: str
    answers: Mapping[str, Answer]
    verdict: Verdict
    phase: Phase
    reply: Reply  # as logged; of an event `text` is a part
    event: Event | None = None
    outcome: Outcome
    following: Following
    alert: bool = False
    pause: float = 5.0  # seconds of the breaker, where HALT
    recipients: tuple[Recipient, ...] = ()
    transactions: int = 1
    config: Mapping[str, object] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    tls: TLS | None = None
    mail: Callable[[], EmailMessage] | None = None
    altered_to: str = ""  # the recipient that somebody wrote into the row, past enqueue
    lapses: str = ""  # the lease runs out while the server answers this command
    silent_at: str = ""  # the server says nothing to this command, and others wait
    alike: bool = True  # a pipelined dialogue comes to the same

    @property
    def id(self) -> str:
        """The test's name: the row, and the reply in it."""
        return f"{self.row.name.lower()}: {self.name}"

    @property
    def is_logged(self) -> bool:
        """Whether it is an attempt: the breaker tells of a halt and a silence."""
        return self.verdict is not Verdict.HALT and not self.lapses and not self.silent_at

    @property
    def charged(self) -> Verdict:
        """The verdict in the log. A suspect turned out to be to blame: the one behind was taken."""
        is_blamed = self.verdict is Verdict.SUSPECT and self.outcome.attempts
        return Verdict.RETRY if is_blamed else self.verdict


_REPLY = re.compile(r"(\d{3})[ -](?:([245]\.\d{1,3}\.\d{1,3}) )?(.*)", re.DOTALL)


def said(line: str) -> Reply:
    """Return the reply of one line, as it stands in the log."""
    found = _REPLY.fullmatch(line)
    assert found is not None, line
    return Reply(code=int(found[1]), enhanced=found[2] or "", text=found[3])


def case(
    row: TableRow,
    name: str,
    answers: Mapping[str, Answer],
    verdict: Verdict,
    phase: Phase,
    reply: str | None = None,
    *,
    event: Event | None = None,
    text: str = "",
    following: Following | None = None,
    **more: Any,
) -> Case:
    """Build a case; what a verdict always does to an email need not be said.

    `reply` is the logged one, by default the only answer. Keywords of `Outcome` change that.
    """
    if event is None:
        [line] = [reply] if reply else [a for a in answers.values() if isinstance(a, str)]
        logged = said(line)
    else:
        logged = Reply(code=0, text=text)
    changed = {key: more.pop(key) for key in Outcome.__dataclass_fields__ if key in more}
    return Case(
        row=row,
        name=name,
        answers=answers,
        verdict=verdict,
        phase=phase,
        reply=logged,
        event=event,
        outcome=replace(OUTCOMES[verdict], **changed),
        following=following or FOLLOWING[verdict],
        **more,
    )
