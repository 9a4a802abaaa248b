"""The table of SMTP replies: which reply, in which phase, leads to which verdict. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..scheduling.backoff import GREYLIST_FLOOR
from .reply_words import (
    CLIENT_THROTTLE,
    GMAIL_THROTTLE,
    LIMIT,
    POLICY_QUOTA,
    SENDERS_LIMIT,
    SENDERS_QUOTA,
    SES_THROTTLE,
    THROTTLE,
    is_greylisting,
    named_delay,
    words_of,
)
from .transaction import Phase, Reply, Verdict

LONGEST_HALT = 3600.0
"""Seconds: the longest time that a server can name where it refuses a session. No email goes out
meanwhile, not even as a probe."""


class Event(StrEnum):
    """What happened where no reply came."""

    CLOSED = "closed"  # the connection was refused, closed or reset
    TIMEOUT = "timeout"  # the reply's total deadline passed
    GARBAGE = "garbage"  # the octets that came are not an SMTP reply
    LACKING = "lacking"  # the server does not offer what this step needs: nothing was sent
    UNVERIFIED = "unverified"  # the server's certificate does not verify: the handshake has ended
    MALFORMED = "malformed"  # the envelope makes no valid command line: no server can take it
    LEASE = "lease"  # our lease was lost: the fence said no
    TOO_LONG = "too long"  # the transaction as a whole took longer than it may
    GIVEN_UP = "given up"  # other emails wait, and only this process could send them


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What one reply, or its absence, means."""

    verdict: Verdict
    retry_after: float | None = None  # seconds, where the reply names a time or greylists
    alert: bool = False  # a person must act
    renew: bool = False  # the connection is out of step or useless: close it


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table. It applies where all of its conditions are met.

    `key` is the start of the reply's code, such as "4", or an event's value; "" is anything.
    """

    phases: frozenset[Phase]
    key: str
    verdict: Verdict
    enhanced: str = ""  # the start of the enhanced code
    unless: re.Pattern[str] | None = None  # the enhanced code as a whole
    text: re.Pattern[str] | None = None
    after_accepted: bool = False  # only once a recipient was accepted
    alert: bool = False
    renew: bool = False

    def applies(self, phase: Phase, key: str, reply: Reply, accepted: bool) -> bool:
        """Return whether this row applies to the reply or event (`key`) in the phase."""
        return (
            key.startswith(self.key)
            and phase in self.phases
            and reply.enhanced.startswith(self.enhanced)
            and (accepted or not self.after_accepted)
            and (self.unless is None or self.unless.fullmatch(reply.enhanced) is None)
            and (self.text is None or self.text.search(words_of(reply.text)) is not None)
        )


ANY = frozenset(Phase)
SESSION = frozenset({Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.STARTTLS, Phase.AUTH})
MAILING = ANY - SESSION
AUTH, MAIL, RCPT, DATA, DOT = (
    frozenset({phase}) for phase in (Phase.AUTH, Phase.MAIL, Phase.RCPT, Phase.DATA, Phase.DOT)
)
BEFORE_DOT = MAILING - DOT

_OF_ONE = re.compile(r"[45]\.(1\.(?!90$)\d+|2\.[1-4]|3\.4)")
"""Enhanced codes that are about one recipient or one content, whatever the words: an address, a
mailbox, a size. But Exchange says x.1.90, x.2.0 and "5.2.2 Submission quota exceeded" of a sender's
limit."""
_OF_SIZE = re.compile(r"[45]\.3\.4")
_OF_SOME = re.compile(rf"{_OF_ONE.pattern}|[45]\.5\.3")
"""The same at RCPT, where x.5.3 is about the number of one email's recipients."""

ROWS: tuple[Row, ...] = (
    # The only success: RFC 5321 §4.2.1 asks clients to look at the first digit.
    Row(DOT, "2", Verdict.SENT),
    # The session: no email is to blame.
    Row(SESSION, "530", Verdict.HALT, alert=True),  # it wants AUTH or STARTTLS: our configuration
    Row(AUTH, "421", Verdict.HALT),
    Row(AUTH, "5", Verdict.HALT, alert=True),  # 535, and the related 534 and 538
    Row(AUTH, Event.LACKING, Verdict.HALT, alert=True),
    Row(SESSION, Event.UNVERIFIED, Verdict.HALT, alert=True),  # it stays so until a person acts
    Row(SESSION, "", Verdict.HALT),
    # A halting reply to an email's own command: the next email tells whose fault it is.
    Row(MAILING, "421", Verdict.SUSPECT),
    Row(MAILING, "530", Verdict.SUSPECT, alert=True),
    # Providers that throttle with their own codes. Gmail's 421 4.7.0 is a 421 like any other.
    # 450 4.2.1 without such a text is about one recipient: its mailbox is disabled (RFC 3463).
    Row(MAILING, "454", Verdict.SUSPECT, text=SES_THROTTLE),
    Row(MAILING, "450", Verdict.SUSPECT, enhanced="4.2.1", text=GMAIL_THROTTLE),
    # At RCPT such a reply, but for 421, is that recipient's own where another one is accepted: the
    # client names all recipients before it takes the reply for the email's (`RecipientRefusals`).
    # At MAIL only the sender and the size are known: the reply may well be about the server.
    Row(MAIL, "4", Verdict.SUSPECT, enhanced="4.3."),  # 4.3.x is the email system's own status
    Row(MAIL, "452", Verdict.SUSPECT),  # its storage is full (RFC 5321 §4.2.3), says Exim, too
    Row(MAIL, "4", Verdict.SUSPECT, unless=_OF_SIZE, text=THROTTLE),
    Row(MAIL, "5", Verdict.SUSPECT, unless=_OF_SIZE, text=THROTTLE),
    # Gmail and Mailtrap count at DATA with 5xx, and Postfix' policy servers at the dot.
    Row(DATA | DOT, "4", Verdict.SUSPECT, unless=_OF_ONE, text=LIMIT),
    Row(DATA | DOT, "5", Verdict.SUSPECT, unless=_OF_ONE, text=LIMIT),
    Row(DATA | DOT, "5", Verdict.SUSPECT, text=SENDERS_QUOTA),
    # The client's own limit is nobody's behind an accepted recipient either: the rest try it alone.
    Row(RCPT, "4", Verdict.NEXT, text=CLIENT_THROTTLE, after_accepted=True),
    Row(RCPT, "5", Verdict.NEXT, text=CLIENT_THROTTLE, after_accepted=True),
    Row(RCPT, "4", Verdict.SUSPECT, text=CLIENT_THROTTLE),
    Row(RCPT, "5", Verdict.SUSPECT, text=CLIENT_THROTTLE),
    Row(MAIL, Event.LACKING, Verdict.LACKING),
    Row(MAIL, Event.MALFORMED, Verdict.FAIL),
    # Out of step: we and the server no longer talk about the same command.
    Row(MAILING, "503", Verdict.RETRY, renew=True),
    # Too many recipients (RFC 5321 §4.5.3.1.10; 552 is the older code for the same).
    Row(RCPT, "452", Verdict.NEXT, after_accepted=True),
    Row(RCPT, "552", Verdict.NEXT, after_accepted=True),
    # RFC 3463 §3.6: "this will result in the sender segmenting the message".
    Row(RCPT, "4", Verdict.NEXT, enhanced="4.5.3", after_accepted=True),
    Row(RCPT, "5", Verdict.NEXT, enhanced="5.5.3", after_accepted=True),
    # Behind "too many recipients": Gmail speaks of its sending limits there, too. The words may be
    # wrongly understood. Then the next email is taken, and this one goes again.
    Row(RCPT, "4", Verdict.SUSPECT, unless=_OF_SOME, text=SENDERS_LIMIT),
    Row(RCPT, "5", Verdict.SUSPECT, unless=_OF_SOME, text=SENDERS_LIMIT),
    Row(RCPT, "5", Verdict.SUSPECT, text=SENDERS_QUOTA),
    Row(MAILING, "4", Verdict.SUSPECT, enhanced="4.7.", text=POLICY_QUOTA),
    Row(MAILING, "5", Verdict.SUSPECT, enhanced="5.7.", text=POLICY_QUOTA),
    # This email, or this recipient.
    Row(MAILING, "4", Verdict.RETRY),
    Row(MAILING, "5", Verdict.FAIL),
    # After the dot everything else is unknown (RFC 1047).
    Row(DOT, "", Verdict.UNKNOWN, renew=True),
    # Before the dot no server has a whole email.
    Row(BEFORE_DOT, Event.CLOSED, Verdict.UNSENT, renew=True),
    Row(BEFORE_DOT, Event.TIMEOUT, Verdict.UNSENT, renew=True),
    Row(BEFORE_DOT, Event.LEASE, Verdict.UNSENT, renew=True),
    Row(BEFORE_DOT, Event.GIVEN_UP, Verdict.UNSENT, renew=True),
    Row(BEFORE_DOT, Event.TOO_LONG, Verdict.RETRY, renew=True),
    Row(BEFORE_DOT, "", Verdict.RETRY, renew=True),  # garbage, and 2xx or 3xx out of place
)
"""The first row that applies gives the judgement."""

_ACCEPTED = Judgement(verdict=Verdict.SENT)
"""The first row's judgement. Nearly every email gets it, so it is not looked up."""


def judge(
    phase: Phase, reply: Reply, *, event: Event | None = None, accepted: bool = False
) -> Judgement:
    """Judge a reply that ends its phase: any reply to the dot, elsewhere any unwanted reply.

    `event` says what happened where no reply came. `accepted` says that the server has accepted a
    recipient in this transaction.
    """
    if phase is Phase.DOT and event is None and reply.code // 100 == 2:
        return _ACCEPTED
    key = event or str(reply.code)
    row = next(row for row in ROWS if row.applies(phase, key, reply, accepted))
    return Judgement(
        verdict=row.verdict,
        retry_after=_retry_after(row.verdict, phase, reply),
        alert=row.alert,
        renew=row.renew or row.verdict in (Verdict.HALT, Verdict.SUSPECT),
    )


def is_out_of_step(codes: Sequence[int]) -> bool:
    """Return whether the replies to a group whose MAIL was refused are those of other commands.

    A server that refused MAIL takes no recipient. If it seems to, the refusal was a second reply to
    the email before, and all others are one place late. But a 354 in DATA's place shows that none
    is.
    """
    return codes[-1] != 354 and any(code // 100 == 2 for code in codes[1:])


def _retry_after(verdict: Verdict, phase: Phase, reply: Reply) -> float | None:
    if verdict not in (Verdict.RETRY, Verdict.HALT, Verdict.SUSPECT):
        return None
    named = named_delay(reply.text)
    if verdict is Verdict.HALT and named is not None:
        return min(named, LONGEST_HALT)
    if verdict is Verdict.RETRY and is_greylisting(phase, reply):
        return max(named or 0.0, GREYLIST_FLOOR)
    return named
