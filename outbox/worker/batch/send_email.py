"""One email of a batch on its way: over the wire, judged, and made ready to be recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from ...domain.delivery.outcome import (
    EmailState,
    Outcome,
    RecipientStatus,
    blamed,
    decide_outcome,
    sent_outcome,
)
from ...domain.delivery.redirect import redirect, restore
from ...domain.delivery.status import Status, settle
from ...domain.delivery.transaction import (
    Envelope,
    Phase,
    RecipientResult,
    Reply,
    Transaction,
    Verdict,
)
from ...domain.scheduling import backoff
from ...smtp.connection import Connection
from ...store.records import Batch, ClaimedEmail, EmailResult
from ..process.runtime import Runtime
from .content_reader import ContentReader

_GIVEN_BACK = Reply(code=0)


@dataclass(kw_only=True, slots=True)
class Outgoing:
    """An email of the open window, and what has come of it so far."""

    mail: ClaimedEmail
    started_at: float  # as `EmailResult` has it
    put_off: tuple[RecipientResult, ...] = ()  # recipients whom an earlier transaction put off
    retry_after: float | None = None  # seconds, that such a transaction named
    result: Transaction | None = None  # the last one that judged nobody
    server: str = ""  # where that was
    blamed_by: frozenset[int] = frozenset()  # emails that were judged there afterwards
    is_held: bool = False  # it waits behind the others for no fault of its own
    is_passed_over: bool = False  # nobody has tried it: all that are like it were halted


class Delivery:
    """Delivers the emails of one batch and words their results."""

    def __init__(
        self, runtime: Runtime, batch: Batch, *, holds: Callable[[], bool], began: float
    ) -> None:
        """`holds` tells whether the lease holds; the batch `began` at this time of our clock."""
        self._runtime = runtime
        self._settings = runtime.settings
        self._holds = holds
        self._began = began
        self._clock = runtime.clock
        self._epoch = batch.began_at.timestamp() - began
        self._contents = ContentReader(runtime.database, runtime.settings.window_bytes)
        self._contents.prefetch(batch.mails)
        self.touched: int | None = None  # the email whose content may have begun to leave

    def now(self) -> float:
        """Return the database's time since 1970, told by this host's clock since the batch began.

        It is no date: to make one takes longer than to judge a reply.
        """
        return self._epoch + self._clock()

    def has_expired(self, mail: ClaimedEmail) -> bool:
        """Return whether it may not be sent any more."""
        return mail.expires_in is not None and self._spent() >= mail.expires_in

    def transact(
        self, mail: ClaimedEmail, connection: Connection, following: ClaimedEmail | None
    ) -> Transaction | None:
        """Send one email over this connection; None where its stored content is damaged.

        `following` is the email that comes next: its envelope may leave behind this content.
        """
        self.touched = None
        content = self._contents.body(mail)
        if content is None:
            return None

        expires = mail.expires_in is not None

        def may_leave() -> bool:
            if not self._holds() or (expires and self.has_expired(mail)):
                return False
            self.touched = mail.id
            return True

        envelope, added = self._addressed(mail)
        ahead = self._addressed(following)[0] if following else None
        octets = added + content if added else content
        result = connection.send(envelope, octets, may_leave, ahead)
        if result.verdict is Verdict.UNSENT and self._holds():
            # An outage, which charges nobody, or an email that the server drops?
            result = connection.connect() or result
        return restore(result, mail.envelope) if added else result

    def judged(self, out: Outgoing, result: Transaction, server: str) -> EmailResult:
        """Return the entry of an email that was judged for itself, or for some recipients."""
        if result.verdict is Verdict.SENT and not out.mail.several:
            return self._entry(out, sent_outcome(result), result, server)
        whole = _with_put_off(out, result)
        return self._entry(out, self._outcome_of(out.mail, whole), whole, server)

    def rest(self, out: Outgoing, result: Transaction, so_far: Outcome) -> Outgoing:
        """Return the email as it goes on to the recipients that one transaction did not take."""
        whole = _with_put_off(out, result)
        left = tuple(r.address for r in whole.recipients if r.verdict is Verdict.NEXT)
        put_off = tuple(r for r in whole.recipients if r.verdict is Verdict.RETRY)
        waiting = {*left, *(r.address for r in put_off)}
        settled = {status for address, status, _ in so_far.recipients if address not in waiting}
        mail = replace(
            out.mail,
            envelope=replace(out.mail.envelope, recipients=left),
            unknown_count=so_far.unknown_total,
            doubtful=out.mail.doubtful & waiting,
            settled=out.mail.settled | settled,
        )
        named = whole.retry_after
        return Outgoing(mail=mail, started_at=self.now(), put_off=put_off, retry_after=named)

    def unsent(self, out: Outgoing, result: Transaction) -> EmailResult:
        """Return the entry of an email whose own command a server halted, and no other took it."""
        is_charged = bool(out.blamed_by) and result.verdict is Verdict.SUSPECT
        return self.judged(out, blamed(result) if is_charged else result, out.server)

    def behind(self, out: Outgoing) -> EmailResult:
        """Return the entry of an email that waits behind the others for no fault of its own."""
        nobody = tuple(
            RecipientResult(address=address, verdict=Verdict.SUSPECT, reply=_GIVEN_BACK)
            for address in out.mail.envelope.recipients
        )
        put = Transaction(
            verdict=Verdict.SUSPECT, phase=Phase.MAIL, reply=_GIVEN_BACK, recipients=nobody
        )
        outcome = self._outcome_of(out.mail, _with_put_off(out, put))
        return self._entry(out, outcome, replace(put, verdict=Verdict.HALT), "")

    def back(
        self, out: Outgoing, status: Status = Status.PENDING, delay: float = 0.0
    ) -> EmailResult:
        """Return the entry of an email that was not sent: uncharged, it keeps its place."""
        unsent = Outcome(
            status=status, reply=_GIVEN_BACK, delay=delay, unknown_total=out.mail.unknown_count
        )
        return self._entry(out, unsent, _NOT_SENT, "")

    def passed_over(self, out: Outgoing) -> EmailResult:
        """Return the entry of an email that was not tried, as all like it were halted.

        It waits, and never ends by that: only a try of its own can tell that it is to blame.
        """
        return self.back(out, delay=backoff.passed_over(out.mail.waited))

    def damaged(self, out: Outgoing, server: str) -> EmailResult:
        """Return the entry of an email whose stored content is not what was enqueued: it fails."""
        mail, reason = out.mail, Reply(code=0, text="the stored content is missing or damaged")
        end = settle(Status.FAILED, in_doubt=mail.unknown_count > 0)
        if RecipientStatus.SENT in mail.settled and end is Status.FAILED:
            end = Status.SENT
        left = tuple(
            (a, RecipientStatus.UNKNOWN if a in mail.doubtful else RecipientStatus.FAILED, reason)
            for a in mail.envelope.recipients
        )
        failed = Outcome(
            status=end, reply=reason, unknown_total=mail.unknown_count, recipients=left
        )
        fail = Transaction(verdict=Verdict.FAIL, phase=Phase.BODY, reply=reason)
        return self._entry(out, failed, fail, server)

    def _addressed(self, mail: ClaimedEmail) -> tuple[Envelope, bytes]:
        """Return the envelope on the wire, and the header lines that redirection adds."""
        to = self._settings.redirect_to
        if not to:
            return mail.envelope, b""
        envelope, added = redirect(mail.envelope, to)
        return replace(envelope, size=mail.size + len(added)), added

    def _outcome_of(self, mail: ClaimedEmail, result: Transaction) -> Outcome:
        settings = self._settings
        facts = EmailState(
            attempts=mail.attempts,
            max_attempts=mail.max_attempts or settings.max_attempts,
            crashes=mail.crashes,
            max_crashes=settings.max_crashes,
            unknown_count=mail.unknown_count,
            on_unknown=mail.on_unknown or settings.on_unknown,
            waited=mail.waited,
            seconds_left=inf if mail.expires_in is not None else settings.lifetime - mail.waited,
            backoff=settings.backoff,
            doubtful=mail.doubtful,
            settled=frozenset(map(RecipientStatus, mail.settled)),
        )
        return decide_outcome(facts, result, random=self._runtime.random)

    def _entry(
        self, out: Outgoing, outcome: Outcome, result: Transaction, server: str
    ) -> EmailResult:
        mail = out.mail
        if mail.suppressed:
            barred = tuple(
                (address, RecipientStatus.SUPPRESSED, Reply(code=0, text="suppressed"))
                for address in sorted(mail.suppressed)
            )
            outcome = replace(outcome, recipients=outcome.recipients + barred)
        return EmailResult(
            email_id=mail.id,
            outcome=outcome,
            verdict=result.verdict,
            phase=result.phase,
            several=mail.several,
            server=server,
            started_at=out.started_at,
            finished_at=self.now(),
        )

    def _spent(self) -> float:
        return self._clock() - self._began


_NOT_SENT = Transaction(verdict=Verdict.HALT, phase=Phase.MAIL, reply=_GIVEN_BACK)


def _with_put_off(out: Outgoing, result: Transaction) -> Transaction:
    """Return the result together with the recipients whom earlier transactions put off."""
    if not out.put_off and out.retry_after is None:
        return result
    named = [wait for wait in (out.retry_after, result.retry_after) if wait is not None]
    recipients = result.recipients + out.put_off
    return replace(result, recipients=recipients, retry_after=max(named, default=None))
