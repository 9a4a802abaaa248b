"""Makes a transaction of one judgement and the recipients' own refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..domain.delivery.transaction import (
    NOBODY,
    Envelope,
    Phase,
    RecipientResult,
    Reply,
    Transaction,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..domain.delivery.reply_table import Judgement
    from .session_errors import Unwanted


_NO_ROOM = Reply(code=0, text="one transaction names no more recipients to this server")

_CLOSING = 421
"""The server ends the session with it (RFC 5321 §3.8): no other recipient can be named."""


class RecipientRefusals:
    """One email's recipients that were refused, put off or left individually, by their place."""

    __slots__ = (
        "accepted", "envelope", "halted", "is_part", "results", "retry_after", "room", "too_many",
    )  # fmt: skip

    def __init__(self, envelope: Envelope, room: int) -> None:
        """`room` is how many recipients, from the first on, this transaction names."""
        self.envelope = envelope
        self.room = room
        self.is_part = room < len(envelope.recipients)
        self.accepted = 0  # recipients; not counted where all replies are good
        self.halted: Unwanted | None = None  # the first refusal that may be the server's own
        self.results: dict[int, RecipientResult] = {}
        self.retry_after: float | None = None
        self.too_many: Reply | None = None  # the server takes no more in this transaction

    @property
    def everybody(self) -> bool:
        """Whether no recipient is left of those that this transaction names."""
        return len(self.results) == self.room

    @property
    def go_on(self) -> bool:
        """Whether recipients are left to the next transaction."""
        return self.is_part or self.too_many is not None

    def add(self, place: int, refusal: Unwanted, judgement: Judgement) -> bool:
        """Note one recipient's refusal; return False if it ends the dialogue for all of them.

        A throttle may be about this mailbox or about the server: whether the server takes another
        recipient tells.
        """
        verdict, reply = judgement.verdict, refusal.reply
        if verdict is Verdict.SUSPECT and reply.code != _CLOSING:
            self.halted = self.halted or refusal
            verdict = Verdict.RETRY
        elif judgement.renew:
            return False
        self._note(place, verdict, reply)
        self.retry_after = _later(self.retry_after, judgement.retry_after)
        if verdict is Verdict.NEXT:
            self.too_many = reply
        return True

    def leave(self, start: int) -> None:
        """Leave the recipients from this place on to the next transaction."""
        for place in range(start, self.room):
            self._note(place, Verdict.NEXT, self.too_many or Reply(code=0))

    def name_no_more(self, room: int) -> None:
        """Have this transaction name no recipients but the first ones, which it has named."""
        self.room, self.is_part = room, True

    def leave_unnamed(self) -> None:
        """Leave those that this transaction does not name to the next one, now that it is over."""
        for place in range(self.room, len(self.envelope.recipients)):
            self._note(place, Verdict.NEXT, _NO_ROOM)

    def _note(self, place: int, verdict: Verdict, reply: Reply) -> None:
        address = self.envelope.recipients[place]
        self.results[place] = RecipientResult(address=address, verdict=verdict, reply=reply)


def transaction_from(
    phase: Phase, reply: Reply, judgement: Judgement, refusals: RecipientRefusals
) -> Transaction:
    """Return a transaction with the email's verdict for each recipient without its own refusal.

    A verdict that judges no recipient, such as HALT or SUSPECT, leaves them only refusals for good.
    """
    if judgement.verdict in NOBODY:
        if refusals.results:
            return _ended_early(phase, reply, judgement, refusals)
    elif refusals.is_part and phase is not Phase.MAIL:  # there the reply is to the whole email
        refusals.leave_unnamed()
    return _with_own(phase, reply, judgement, refusals, refusals.results)


def _ended_early(
    phase: Phase, reply: Reply, judgement: Judgement, refusals: RecipientRefusals
) -> Transaction:
    """Return a transaction in which only recipients who were refused for good are judged.

    If the server had said nothing else, the first refusal is the email's reply, as it would be if
    there were no other recipients. So emails that are refused alike look alike.

    Who was accepted gets nothing from this transaction: only the reply to the final dot takes an
    email over (RFC 5321 §4.2.5). Who was put off is not left out of the next transaction, as that
    needs a due time for each recipient. To go on at once without them would be a new session right
    after a 421.
    """
    heard = refusals.accepted + len(refusals.results)
    own = {p: one for p, one in refusals.results.items() if one.verdict is Verdict.FAIL}
    result = _with_own(phase, reply, judgement, refusals, own)
    if heard > len(own):
        return replace(result, mixed=True)
    return replace(result, reply=next(iter(own.values())).reply)


def _with_own(
    phase: Phase,
    reply: Reply,
    judgement: Judgement,
    refusals: RecipientRefusals,
    own: Mapping[int, RecipientResult],
) -> Transaction:
    verdict, named = judgement.verdict, judgement.retry_after
    results = tuple(
        [
            RecipientResult(address=address, verdict=verdict, reply=reply)
            for address in refusals.envelope.recipients
        ]
    )
    if own:
        results = tuple(own.get(place) or result for place, result in enumerate(results))
        named = _later(named, refusals.retry_after)
    return Transaction(
        verdict=verdict,
        phase=phase,
        reply=reply,
        recipients=results,
        retry_after=named,
        alert=judgement.alert,
    )


def all_refused(refusals: RecipientRefusals) -> Transaction:
    """Return the transaction of an email with no recipient left: RETRY if one was put off."""
    refusals.leave_unnamed()
    results = tuple(refusals.results[place] for place in sorted(refusals.results))
    named = results[: refusals.room]
    put_off = [result for result in named if result.verdict is not Verdict.FAIL]
    return Transaction(
        verdict=Verdict.RETRY if put_off else Verdict.FAIL,
        phase=Phase.RCPT,
        reply=(put_off or named)[0].reply,
        recipients=results,
        retry_after=refusals.retry_after,
    )


def halt_transaction(phase: Phase, reply: Reply, judgement: Judgement) -> Transaction:
    """Return a transaction that says that no session could be opened."""
    return Transaction(
        verdict=judgement.verdict,
        phase=phase,
        reply=reply,
        retry_after=judgement.retry_after,
        alert=judgement.alert,
    )


def addressed(halt: Transaction, envelope: Envelope) -> Transaction:
    """Return a transaction that had no envelope, with the recipients of this one."""
    recipients = tuple(
        RecipientResult(address=address, verdict=halt.verdict, reply=halt.reply)
        for address in envelope.recipients
    )
    return replace(halt, recipients=recipients)


def _later(first: float | None, second: float | None) -> float | None:
    return max((wait for wait in (first, second) if wait is not None), default=None)
