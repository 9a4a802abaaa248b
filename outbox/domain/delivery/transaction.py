"""The types of one SMTP transaction and its result. `reply_table` has the rules for replies."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import field
from enum import StrEnum

from ..values import value_type

_DEMAND = re.compile(r"REQUIRETLS|BY=-?\d+;RT?", re.IGNORECASE)


class Phase(StrEnum):
    """Where in the SMTP dialogue something happened."""

    CONNECT = "connect"
    GREETING = "greeting"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    BODY = "body"
    DOT = "dot"  # the final dot was handed over: its reply is awaited


class Verdict(StrEnum):
    """What to do with an email, or with one of its recipients."""

    SENT = "sent"  # accepted: never sent again
    RETRY = "retry"  # put off: one attempt charged, backoff
    FAIL = "fail"  # refused for good
    UNKNOWN = "unknown"  # in doubt: the final dot went out, and no conclusive reply came
    HALT = "halt"  # there is no session with the server: charge nobody
    SUSPECT = "suspect"  # a halting reply to this email's own command: its fault, or the server's?
    LACKING = "lacking"  # the server does not offer what this email needs: another one may
    UNSENT = "unsent"  # the connection or the lease was lost before the final dot: known unsent
    NEXT = "next"  # of a recipient only: too many for this transaction, so the next takes it


NOBODY = frozenset({Verdict.HALT, Verdict.SUSPECT, Verdict.LACKING, Verdict.UNSENT})
"""Verdicts that judge no recipient: the email is known to be unsent."""

_ENDED_EARLY = frozenset({Verdict.SUSPECT, Verdict.UNSENT})


@value_type(frozen=True, kw_only=True, slots=True)
class Reply:
    """A server's reply, cleaned: no control characters, at most 500 characters of text.

    `code` is 0 where no reply came (a lost connection, a time-out, garbage); `text` then says what
    happened. `enhanced` is RFC 3463's code, such as "4.2.1", or "".
    """

    code: int
    enhanced: str = ""
    text: str = ""


@value_type(frozen=True, kw_only=True, slots=True)
class RecipientResult:
    """What became of one recipient in one transaction."""

    address: str
    verdict: Verdict
    reply: Reply


@value_type(frozen=True, kw_only=True, slots=True)
class Transaction:
    """The typed result of one SMTP transaction: never an exception.

    `recipients` has one entry for each envelope recipient, in the envelope's order. Where the whole
    email was judged (MAIL, DATA, the final dot), every recipient gets its verdict, except those
    that were refused individually. Where it was not judged, because the server ended the
    transaction early (SUSPECT, UNSENT), only those keep theirs who were refused for good.
    """

    verdict: Verdict
    phase: Phase
    reply: Reply
    recipients: tuple[RecipientResult, ...] = ()
    retry_after: float | None = None  # seconds, where the reply names a time
    alert: bool = False  # a person must act: credentials or TLS are missing or wrong
    took_too_long: bool = False  # longer than it may: the server is suspected, too
    wait_given_up: bool = False  # for the reply, because other emails waited
    converted: bool = False  # its 8 bits went as 7: the server does not offer 8BITMIME
    mixed: bool = False  # before it ended early, a recipient was accepted or put off

    @property
    def is_put_off(self) -> bool:
        """Whether the server greeted with a 4xx: it may only have too many sessions for now."""
        return self.phase is Phase.GREETING and 400 <= self.reply.code < 500

    @property
    def is_cut_short(self) -> bool:
        """Whether the server hung up before the content, after it had accepted or put off somebody.

        Some servers hang up behind each refusal, also behind one for now. It is no crash: a single
        email can crash a server only by its content.
        """
        is_early = self.phase in (Phase.RCPT, Phase.DATA)
        return self.verdict is Verdict.UNSENT and self.mixed and is_early

    def refused_early(self, doubtful: Collection[str] = ()) -> tuple[RecipientResult, ...]:
        """Return who was refused for good before the server ended the transaction early.

        The email goes on without them. Those in doubt are left out, because they may have a copy.
        """
        if self.verdict not in _ENDED_EARLY:
            return ()
        refused = (one for one in self.recipients if one.verdict is Verdict.FAIL)
        return tuple(one for one in refused if one.address not in doubtful)


@value_type(frozen=True, kw_only=True, slots=True)
class Envelope:
    """RFC 5321's envelope: the reverse path, the forward paths and what they need."""

    sender: str  # "" is the null reverse path of a bounce
    recipients: tuple[str, ...]
    size: int = 0  # octets of the email, for MAIL, which may leave before the content is at hand
    smtputf8: bool = False
    eightbit: bool = False
    mail_options: tuple[str, ...] = field(default=())
    rcpt_options: tuple[str, ...] = field(default=())

    @property
    def demands(self) -> tuple[str, ...]:
        """The options that must not be left out on the way (RFC 8689 §4.2.1, RFC 2852 §4.1)."""
        return tuple(filter(_DEMAND.fullmatch, self.mail_options)) if self.mail_options else ()
