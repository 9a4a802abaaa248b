"""Makes the `EmailResult` of each email, ready to be recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from math import inf

from ...domain.delivery.outcome import (
    EmailState,
    Outcome,
    RecipientStatus,
    blamed,
    decide_outcome,
    ended_outcome,
    sent_outcome,
)
from ...domain.delivery.reply_words import ends_after_errors, is_throttle
from ...domain.delivery.status import Status
from ...domain.delivery.transaction import (
    Phase,
    RecipientResult,
    Reply,
    Transaction,
    Verdict,
)
from ...domain.scheduling import backoff
from ...store.records import Batch, ClaimedEmail, EmailResult
from ..process.runtime import Runtime

SLOW_DELAY = 30.0
"""The least seconds until a slow email is due again, after the wait for its reply was ended."""


class Unjudged(Enum):
    """Why no server has taken or judged an email of the open window, as far as is known."""

    UNTRIED = auto()  # its turn did not come: it goes back, uncharged
    PASSED_OVER = auto()  # all emails like it were halted: it goes back, and waits
    BEHIND = auto()  # it waits behind the others, through no fault of its own
    SUSPECT = auto()  # a server halted at one of the email's own commands


@dataclass(kw_only=True, slots=True)
class Outgoing:
    """An email of the open window, and its state so far."""

    email: ClaimedEmail
    started_at: float  # as in `EmailResult`
    put_off: tuple[RecipientResult, ...] = ()  # recipients whom an earlier transaction put off
    retry_after: float | None = None  # seconds that an earlier transaction named
    unjudged: Unjudged = Unjudged.UNTRIED  # decides its result if no server takes it
    suspected: Transaction | None = None  # the transaction that made it a suspect
    server: str = ""  # the server of that transaction
    blamed_by: frozenset[int] = frozenset()  # emails that this server judged afterwards

    def set_aside(self, transaction: Transaction, server: str, *, is_acquitted: bool) -> None:
        """Note that a server neither took nor judged the email."""
        match transaction.verdict:
            case Verdict.SUSPECT | Verdict.LACKING | Verdict.UNSENT if not is_acquitted:
                # It may be at fault itself.
                self.suspected, self.server = transaction, server
                if self.unjudged is not Unjudged.BEHIND:
                    self.unjudged = Unjudged.SUSPECT
            case Verdict.HALT:  # there is no session: nothing new is known of the email
                if self.unjudged is Unjudged.BEHIND:
                    self.unjudged = Unjudged.UNTRIED if self.suspected is None else Unjudged.SUSPECT
            case _:  # a refusal that is the server's fault: it refuses all alike
                self.unjudged = Unjudged.BEHIND
        if transaction.wait_given_up:  # the server might still have taken it: no crash is charged
            self.unjudged, self.retry_after = Unjudged.BEHIND, SLOW_DELAY


class ResultFactory:
    """Makes the results of one batch's emails. It leaves to the domain what the domain decides."""

    def __init__(self, runtime: Runtime, batch: Batch, *, began: float) -> None:
        """`began` is the time on our clock at which the batch began."""
        self._settings = runtime.settings
        self._random = runtime.random
        self._clock = runtime.clock
        self._epoch = batch.began_at.timestamp() - began

    def now(self) -> float:
        """Return the seconds since 1970: the database's at the batch's begin, plus our clock's.

        It is a number, because making a datetime takes longer than judging a reply.
        """
        return self._epoch + self._clock()

    def judged(
        self, out: Outgoing, transaction: Transaction, server: str
    ) -> tuple[EmailResult, Outgoing | None]:
        """Return the result of an email that was judged for itself, and the rest of it or None.

        The rest is the email to the recipients that did not fit into this transaction.
        """
        if transaction.verdict is Verdict.SENT and not out.email.several:
            return self._result(out, sent_outcome(transaction), transaction, server), None
        whole = _with_put_off(out, transaction)
        outcome = self._outcome(out.email, whole)
        result = self._result(out, outcome, whole, server)
        return result, self._rest(out, whole, outcome) if outcome.again else None

    def interrupted(self, out: Outgoing, transaction: Transaction, server: str) -> EmailResult:
        """Return the result of an email that was judged for itself just before an error of ours.

        Recipients that did not fit into the transaction go back, uncharged.
        """
        result, rest = self.judged(out, transaction, server)
        if rest is None:
            return result
        return replace(result, outcome=replace(result.outcome, status=Status.PENDING, again=False))

    def unjudged(self, out: Outgoing) -> EmailResult:
        """Return the result of an email that no server took or judged for itself."""
        if out.unjudged is Unjudged.UNTRIED:
            return self.give_back(out)
        if out.unjudged is Unjudged.PASSED_OVER:
            # This never ends an email: only its own try can show that it is to blame.
            return self.give_back(out, delay=backoff.passed_over(out.email.waited))
        suspected = out.suspected if out.unjudged is Unjudged.SUSPECT else None
        if suspected is None or _may_drop_all(out, suspected):
            return self._behind(out)
        whole = _with_put_off(out, blamed(suspected) if _is_to_blame(out, suspected) else suspected)
        return self._result(out, self._outcome(out.email, whole), whole, out.server)

    def give_back(
        self, out: Outgoing, status: Status = Status.PENDING, delay: float = 0.0
    ) -> EmailResult:
        """Return the result of an email that was not sent: it is uncharged and keeps its place."""
        outcome = Outcome(
            status=status, reply=_NO_REPLY, delay=delay, unknown_total=out.email.unknown_count
        )
        return self._result(out, outcome, _UNLOGGED, "")

    def damaged(self, out: Outgoing, server: str) -> EmailResult:
        """Return the result of an email of which not all is stored that was enqueued: failed."""
        what = "recipients are missing"
        if not out.email.lacks_recipients:
            what = "content is missing or damaged"
        reply = Reply(code=0, text=f"the stored {what}")
        fail = _of_all(out, Verdict.FAIL, Phase.BODY, reply)
        return self._result(out, ended_outcome(self._state(out.email), fail), fail, server)

    def unreadable(self, out: Outgoing, key_id: str) -> EmailResult:
        """Return the result of an email whose encryption key this worker lacks.

        It waits behind the others, uncharged: its key may come, until its lifetime is over.
        """
        reply = Reply(code=0, text=f"the worker lacks the encryption key {key_id}")
        lacking = _of_all(out, Verdict.SUSPECT, Phase.BODY, reply)
        whole = _with_put_off(out, lacking)
        return self._result(out, self._outcome(out.email, whole), whole, "")

    def crashed(self, out: Outgoing, error: BaseException, server: str) -> EmailResult:
        """Return the result of an email whose sending raised an error of ours: a crash is charged.

        So an email that makes each try fail is soon claimed alone, and at last it ends.
        """
        reply = Reply(code=0, text=f"the worker failed: {type(error).__name__}")
        crash = _of_all(out, Verdict.UNSENT, Phase.MAIL, reply)
        return self.judged(out, crash, server)[0]

    def _behind(self, out: Outgoing) -> EmailResult:
        """Return the result of an email that waits behind the others, without being at fault.

        The domain decides it as for a suspect: each waits, until its lifetime is over. But nothing
        was tried on behalf of this email, so no attempt is logged.
        """
        as_suspect = _of_all(out, Verdict.SUSPECT, Phase.MAIL, _NO_REPLY)
        outcome = self._outcome(out.email, _with_put_off(out, as_suspect))
        return self._result(out, outcome, _UNLOGGED, "")

    def _rest(self, out: Outgoing, transaction: Transaction, so_far: Outcome) -> Outgoing:
        recipients = transaction.recipients
        left = tuple(r.address for r in recipients if r.verdict is Verdict.NEXT)
        put_off = tuple(r for r in recipients if r.verdict is Verdict.RETRY)
        waiting = {*left, *(r.address for r in put_off)}
        settled = {status for address, status, _ in so_far.recipients if address not in waiting}
        accepted = {r.address for r in recipients if r.verdict is Verdict.SENT}
        email = replace(
            out.email,
            envelope=replace(out.email.envelope, recipients=left),
            unknown_count=so_far.unknown_total,
            doubtful=out.email.doubtful - accepted,  # who is refused now may have a copy
            settled=out.email.settled | settled,
        )
        named = transaction.retry_after
        return Outgoing(email=email, started_at=self.now(), put_off=put_off, retry_after=named)

    def _outcome(self, email: ClaimedEmail, transaction: Transaction) -> Outcome:
        return decide_outcome(self._state(email), transaction, random=self._random)

    def _state(self, email: ClaimedEmail) -> EmailState:
        settings = self._settings
        return EmailState(
            attempts=email.attempts,
            max_attempts=email.max_attempts or settings.max_attempts,
            crashes=email.crashes,
            max_crashes=settings.max_crashes,
            unknown_count=email.unknown_count,
            on_unknown=email.on_unknown or settings.on_unknown,
            waited=email.waited,
            seconds_left=inf if email.expires_in is not None else settings.lifetime - email.waited,
            backoff=settings.backoff,
            doubtful=email.doubtful,
            settled=frozenset(map(RecipientStatus, email.settled)),
        )

    def _result(
        self, out: Outgoing, outcome: Outcome, transaction: Transaction, server: str
    ) -> EmailResult:
        email = out.email
        if email.suppressed:
            barred = tuple(
                (address, RecipientStatus.SUPPRESSED, Reply(code=0, text="suppressed"))
                for address in sorted(email.suppressed)
            )
            outcome = replace(outcome, recipients=outcome.recipients + barred)
        return EmailResult(
            email_id=email.id,
            outcome=outcome,
            verdict=transaction.verdict,
            phase=transaction.phase,
            several=email.several,
            server=server,
            started_at=out.started_at,
            finished_at=self.now(),
            redact=email.redact,
        )


_NO_REPLY = Reply(code=0)
_UNLOGGED = Transaction(verdict=Verdict.HALT, phase=Phase.MAIL, reply=_NO_REPLY)
"""Stands for no transaction: a result with a HALT is not logged as an attempt."""
_BEFORE_CONTENT = (Phase.MAIL, Phase.RCPT, Phase.DATA)


def _is_to_blame(out: Outgoing, suspected: Transaction) -> bool:
    """Return whether an email is charged for a halting reply: the server judged others afterwards.

    It is not for a throttle. The limit's time may just have been over when the server took another.
    Nor is it for the end of a session after errors: these were mostly those of other emails.
    """
    if suspected.verdict is not Verdict.SUSPECT or not out.blamed_by:
        return False
    text = suspected.reply.text
    return not (is_throttle(text) or ends_after_errors(text))


def _may_drop_all(out: Outgoing, suspected: Transaction) -> bool:
    """Return whether the server may drop any email.

    It dropped this one before the content, and has judged none since. A single email can crash a
    server only by its content.
    """
    is_early = suspected.verdict is Verdict.UNSENT and suspected.phase in _BEFORE_CONTENT
    return is_early and not out.blamed_by


def _of_all(out: Outgoing, verdict: Verdict, phase: Phase, reply: Reply) -> Transaction:
    """Return a transaction that has this verdict on the email and on each recipient."""
    recipients = tuple(
        RecipientResult(address=address, verdict=verdict, reply=reply)
        for address in out.email.envelope.recipients
    )
    return Transaction(verdict=verdict, phase=phase, reply=reply, recipients=recipients)


def _with_put_off(out: Outgoing, transaction: Transaction) -> Transaction:
    """Return the transaction, with the recipients whom earlier transactions put off added."""
    if not out.put_off and out.retry_after is None:
        return transaction
    named = [wait for wait in (out.retry_after, transaction.retry_after) if wait is not None]
    recipients = transaction.recipients + out.put_off
    return replace(transaction, recipients=recipients, retry_after=max(named, default=None))
