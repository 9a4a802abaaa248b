"""What a verdict does to an email: next status, what is charged, when it is due again. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from ..config.settings import OnUnknown
from ..scheduling import backoff
from ..values import value_type
from .status import Status, end_status
from .transaction import Phase, RecipientResult, Reply, Transaction, Verdict

MAX_UNKNOWN = 3
"""An email ends `unknown` when it is in doubt for the third time: it is resent at most twice."""

ALONE_FROM = 2
"""Crashes from which on an email is claimed alone, so that it makes no other email fail."""

_BEHIND = frozenset({Verdict.SUSPECT, Verdict.LACKING})

LOST_DELAY = 30.0
"""Seconds of delay, times its crashes, of an email that was dropped before the final dot."""

SHORTER_DELAY = 30.0
"""Seconds until an email goes on without recipients for whom the server has hung up."""


class RecipientStatus(StrEnum):
    """Stored in `outbox_recipient.status`."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"
    SUPPRESSED = "suppressed"


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailState:
    """What is known of an email before its transaction is judged."""

    attempts: int
    max_attempts: int
    crashes: int
    max_crashes: int
    unknown_count: int
    on_unknown: OnUnknown
    waited: float = 0.0  # seconds: the sum of the delays that it was given itself
    seconds_left: float  # of its lifetime; infinite where it has an `expires_at`
    backoff: tuple[float, ...] = backoff.STEPS
    doubtful: frozenset[str] = frozenset()  # recipients that are in doubt
    settled: frozenset[RecipientStatus] = frozenset()  # the results of earlier transactions


@value_type(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What to write: the new status and the counters' changes.

    `delay` is seconds until the email is due again, where it goes back to pending.
    """

    status: Status
    reply: Reply
    delay: float = 0.0
    attempts_added: int = 0
    crashes_added: int = 0
    unknown_total: int = 0  # the new value, not a change: 0 once no recipient is in doubt
    recipients: tuple[tuple[str, RecipientStatus, Reply], ...] = ()
    again: bool = False  # more recipients than one transaction takes: go on at once


def sent_outcome(result: Transaction) -> Outcome:
    """Return what `decide_outcome` returns where the only recipient was accepted.

    Nearly every email ends so, and nothing that was known of it before changes the outcome.
    """
    [only] = result.recipients
    return Outcome(
        status=Status.SENT,
        reply=result.reply,
        attempts_added=1,
        recipients=((only.address, RecipientStatus.SENT, result.reply),),
    )


def decide_outcome(
    state: EmailState, result: Transaction, *, random: Callable[[], float]
) -> Outcome:
    """Return what a transaction does to its email. `random` returns numbers from 0 to 1."""
    if result.verdict is Verdict.HALT:
        return _put_back(state, result)
    if result.refused_early(state.doubtful):
        return _shortened(state, result)
    if result.is_cut_short:
        return _behind(state, result)
    if result.verdict is Verdict.UNSENT:
        return _lost(state, result)
    if result.verdict in _BEHIND:
        return _behind(state, result)
    statuses = {r.address: _recipient(state, r) for r in result.recipients}
    recipients = tuple((r.address, statuses[r.address], r.reply) for r in result.recipients)
    reached = frozenset(statuses.values()) | state.settled
    if state.doubtful - statuses.keys():  # not sent to now: suppressed since, or refused just now
        reached |= {RecipientStatus.UNKNOWN}
    verdicts = {r.verdict for r in result.recipients}
    common = Outcome(
        status=Status.PENDING,
        reply=result.reply,
        attempts_added=1,
        unknown_total=state.unknown_count if RecipientStatus.UNKNOWN in reached else 0,
        recipients=recipients,
    )
    # At RCPT those were judged whom the transaction named, and they were all refused. After a
    # transaction that took too long each part would take as long.
    goes_on = result.verdict is Verdict.SENT or result.phase is Phase.RCPT
    if Verdict.NEXT in verdicts and goes_on and not result.took_too_long:
        return replace(common, status=Status.SENDING, again=True, attempts_added=0)
    if Verdict.UNKNOWN in verdicts:
        return _doubt(state, common, random)
    if verdicts & {Verdict.RETRY, Verdict.NEXT}:
        return _put_off(state, result, common, reached, random)
    return replace(common, status=_end(reached))


def ended_outcome(state: EmailState, result: Transaction) -> Outcome:
    """Return the outcome of an email that is not sent again, though no attempt is charged for it.

    Recipients with no result yet fail, but those in doubt stay so.
    """
    recipients = tuple(
        (r.address, _end_recipient(state, r.address, RecipientStatus.PENDING), r.reply)
        for r in result.recipients
    )
    return Outcome(
        status=end_status(
            Status.FAILED,
            in_doubt=bool(state.unknown_count or state.doubtful)
            or RecipientStatus.UNKNOWN in state.settled,
            has_copy=RecipientStatus.SENT in state.settled,
        ),
        reply=result.reply,
        unknown_total=state.unknown_count,
        recipients=recipients,
    )


def ends_unknown(
    *, on_unknown: OnUnknown, unknown_count: int, attempts: int, max_attempts: int
) -> bool:
    """Return whether an email that comes into doubt ends `unknown`, and is not sent again.

    The numbers are those before this doubt, which is charged as an attempt.
    """
    return (
        on_unknown is OnUnknown.HOLD
        or unknown_count + 1 >= MAX_UNKNOWN
        or attempts + 1 >= max_attempts
    )


def blamed(result: Transaction) -> Transaction:
    """Return the result of a suspect that turned out to be to blame: it is charged as a RETRY.

    Who was refused for good stays refused.
    """
    recipients = tuple(
        one if one.verdict is Verdict.FAIL else replace(one, verdict=Verdict.RETRY)
        for one in result.recipients
    )
    return replace(result, verdict=Verdict.RETRY, recipients=recipients)


def put_off(result: Transaction) -> Transaction:
    """Return the result of an email whose refusal may be the server's fault: it is tried again."""
    recipients = tuple(
        replace(one, verdict=Verdict.RETRY) if one.verdict is Verdict.FAIL else one
        for one in result.recipients
    )
    return replace(result, verdict=Verdict.RETRY, recipients=recipients)


def _recipient(state: EmailState, result: RecipientResult) -> RecipientStatus:
    match result.verdict:
        case Verdict.SENT:
            return RecipientStatus.SENT
        case Verdict.FAIL if result.address in state.doubtful:
            return RecipientStatus.UNKNOWN  # refused now, but an earlier copy may have arrived
        case Verdict.FAIL:
            return RecipientStatus.FAILED
        case Verdict.UNKNOWN:
            return RecipientStatus.UNKNOWN
        case _ if result.address in state.doubtful:
            return RecipientStatus.UNKNOWN
        case _:
            return RecipientStatus.PENDING


def _end(reached: frozenset[RecipientStatus]) -> Status:
    """Return the status of an email that has no recipient left to be sent to."""
    return end_status(
        Status.FAILED,
        in_doubt=RecipientStatus.UNKNOWN in reached,
        has_copy=RecipientStatus.SENT in reached,
    )


def _doubt(state: EmailState, common: Outcome, random: Callable[[], float]) -> Outcome:
    doubted = replace(common, unknown_total=state.unknown_count + 1)
    wait = backoff.delay(state.attempts + 1, random=random, steps=state.backoff)
    over = wait >= state.seconds_left or ends_unknown(
        on_unknown=state.on_unknown,
        unknown_count=state.unknown_count,
        attempts=state.attempts,
        max_attempts=state.max_attempts,
    )
    return replace(doubted, status=Status.UNKNOWN) if over else replace(doubted, delay=wait)


def _put_off(
    state: EmailState,
    result: Transaction,
    common: Outcome,
    reached: frozenset[RecipientStatus],
    random: Callable[[], float],
) -> Outcome:
    wait = backoff.delay(
        state.attempts + 1, random=random, steps=state.backoff, named=result.retry_after
    )
    if state.attempts + 1 < state.max_attempts and wait < state.seconds_left:
        return replace(common, delay=wait)
    ended = tuple(
        (address, _end_recipient(state, address, status), reply)
        for address, status, reply in common.recipients
    )
    settled = frozenset(status for _, status, _ in ended) | reached - {RecipientStatus.PENDING}
    return replace(common, status=_end(settled), recipients=ended)


def _end_recipient(state: EmailState, address: str, status: RecipientStatus) -> RecipientStatus:
    if status is not RecipientStatus.PENDING:
        return status
    return RecipientStatus.UNKNOWN if address in state.doubtful else RecipientStatus.FAILED


def _shortened(state: EmailState, result: Transaction) -> Outcome:
    """Record who was refused for good, and put the email back, uncharged, for the others.

    The refusals may well be why the server hung up. The next envelope is shorter by them, so this
    ends: after as many times as there are recipients at most.
    """
    wait = max(SHORTER_DELAY, result.retry_after or 0.0)
    if wait >= state.seconds_left:
        return ended_outcome(state, result)
    recipients = tuple((r.address, _recipient(state, r), r.reply) for r in result.recipients)
    return replace(_put_back(state, result), delay=wait, recipients=recipients)


def _lost(state: EmailState, result: Transaction) -> Outcome:
    """Charge only a crash: the server is up, but dropped this email before its final dot."""
    crashes = state.crashes + 1
    if crashes >= state.max_crashes:
        return replace(ended_outcome(state, result), crashes_added=1)
    return replace(_put_back(state, result), crashes_added=1, delay=LOST_DELAY * crashes)


def _behind(state: EmailState, result: Transaction) -> Outcome:
    """Put the email behind the others, uncharged: nobody knows whether it is to blame."""
    wait = backoff.behind(state.waited, result.retry_after)
    if wait >= state.seconds_left:
        return ended_outcome(state, result)
    return replace(_put_back(state, result), delay=wait)


def _put_back(state: EmailState, result: Transaction) -> Outcome:
    return Outcome(status=Status.PENDING, reply=result.reply, unknown_total=state.unknown_count)
