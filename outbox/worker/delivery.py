"""One mail of a batch on its way: over the wire, judged, and made ready to be recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from ..domain.conclusion import Conclusion, Facts, RecipientStatus, conclude, taken
from ..domain.lifecycle import Status, settle
from ..domain.redirect import redirect, restore
from ..domain.verdict import Envelope, Phase, RecipientResult, Reply, Transaction, Verdict
from ..store import breaker
from ..store.rows import Batch, Entry, Waiting
from .contents import Contents
from .heartbeat import Heartbeat
from .persistence import outlast
from .runtime import Runtime
from .way import Way

_UNJUDGED = frozenset({Verdict.UNSENT, Verdict.UNKNOWN})


class Delivery:
    """Delivers the mails of one batch over its way."""

    def __init__(
        self, runtime: Runtime, batch: Batch, way: Way, heartbeat: Heartbeat, began: float
    ) -> None:
        self._runtime = runtime
        self._settings = runtime.settings
        self._batch = batch
        self._way = way
        self._heartbeat = heartbeat
        self._began = began
        self._epoch = batch.began_at.timestamp() - began
        self._contents = Contents(runtime.database, runtime.settings.window_bytes)
        self._contents.expect(batch.mails)
        self.halted = False  # the way is closed: what is left goes back uncharged
        self.usable = False  # the server has judged a mail: it is up
        self.innocent: frozenset[int] = frozenset()  # refused as every mail was: nobody is charged

    def deliver(self, mail: Waiting, following: Waiting | None) -> Iterator[Entry]:
        """Send one mail and yield its results; `following` is the mail that comes next.

        There are several where the server takes fewer recipients than the mail has. Each must be
        committed before the next is asked for, so that nobody who has the mail gets it again.
        """
        started = self._now()
        content = self._contents.of(mail)
        if content is None:
            yield self._entry(mail, _damaged(mail), Verdict.FAIL, Phase.BODY, started)
            return
        result = self._transact(mail, content, following)
        while True:
            if mail.id in self.innocent:
                yield self.give_back(mail)
                return
            conclusion = self._conclude(mail, result)
            yield self._entry(mail, conclusion, result.verdict, result.phase, started)
            if not conclusion.again:
                return
            mail, put_off = _rest(mail, result, conclusion)
            started = self._now()
            rest = self._transact(mail, content, following)
            named = [w for w in (result.retry_after, rest.retry_after) if w is not None]
            result = replace(
                rest,
                recipients=rest.recipients + put_off,
                retry_after=max(named, default=None),
            )

    def give_back(self, mail: Waiting) -> Entry:
        """Return the result of a mail in the open window that was not sent: nothing is charged."""
        unsent = Conclusion(status=Status.PENDING, reply=Reply(code=0), doubts=mail.doubts)
        return self._entry(mail, unsent, Verdict.HALT, Phase.MAIL, self._now())

    def _transact(self, mail: Waiting, content: bytes, following: Waiting | None) -> Transaction:
        """Send the mail over the way's server, or the next one where that halts."""
        while True:
            result = self._over_this_server(mail, content, following)
            if result.verdict is not Verdict.HALT:
                break
            if not self._heartbeat.holds() or not self._goes_on(result):
                self.halted = True
                return result
        if result.verdict not in _UNJUDGED:
            self.usable = True
        self.innocent = self._way.refusals.note(mail, result)
        if self.innocent:
            self.halted, self.usable = True, False
        return result

    def _over_this_server(
        self, mail: Waiting, content: bytes, following: Waiting | None
    ) -> Transaction:
        envelope, added = self._addressed(mail)
        ahead = self._addressed(following)[0] if following else None
        connection, holds = self._way.connection, self._heartbeat.holds
        result = connection.send(envelope, added + content if added else content, holds, ahead)
        if result.verdict is Verdict.UNSENT:
            result = self._why_unsent(result)
        return restore(result, mail.envelope) if added else result

    def _addressed(self, mail: Waiting) -> tuple[Envelope, bytes]:
        """Return the envelope as it goes on the wire, and what redirection puts before the mail."""
        to = self._settings.redirect_to
        if not to:
            return mail.envelope, b""
        envelope, added = redirect(mail.envelope, b"", to)
        return replace(envelope, size=mail.size + len(added)), added

    def _why_unsent(self, result: Transaction) -> Transaction:
        """Tell an outage and a lost lease, which charge nobody, from a mail the server drops."""
        if not self._heartbeat.holds():
            return replace(result, verdict=Verdict.HALT)
        outage = self._way.connection.connect()
        return result if outage is None else outage

    def _goes_on(self, halt: Transaction) -> bool:
        """Open the server's breaker and take the next server; False where there is none."""
        trip = partial(
            breaker.trip,
            self._runtime.database,
            self._way.server.name,
            reason=f"{halt.phase}: {halt.reply.code} {halt.reply.text}",
            alert=halt.alert,
            named=halt.retry_after,
        )
        outlast(trip)  # results of this window wait for their record
        return self._way.go_on()

    def _conclude(self, mail: Waiting, result: Transaction) -> Conclusion:
        if result.verdict is Verdict.SENT and not mail.several:
            return taken(result)
        return conclude(self._facts(mail), result, random=self._runtime.random)

    def _facts(self, mail: Waiting) -> Facts:
        settings = self._settings
        left = settings.lifetime - mail.age - (self._runtime.clock() - self._began)
        return Facts(
            attempts=mail.attempts,
            max_attempts=mail.max_attempts or settings.max_attempts,
            deliveries=mail.deliveries,
            max_deliveries=settings.max_deliveries,
            doubts=mail.doubts,
            on_unknown=mail.on_unknown or settings.on_unknown,
            seconds_left=float("inf") if mail.expires else left,
            doubtful=mail.doubtful,
            settled=frozenset(map(RecipientStatus, mail.settled)),
        )

    def _entry(
        self,
        mail: Waiting,
        conclusion: Conclusion,
        verdict: Verdict,
        phase: Phase,
        started: datetime,
    ) -> Entry:
        if mail.suppressed:
            barred = tuple(
                (address, RecipientStatus.SUPPRESSED, Reply(code=0, text="suppressed"))
                for address in sorted(mail.suppressed)
            )
            conclusion = replace(conclusion, recipients=conclusion.recipients + barred)
        return Entry(
            email_id=mail.id,
            conclusion=conclusion,
            verdict=verdict,
            phase=phase,
            several=mail.several,
            server=self._way.server.name,
            started_at=started,
            finished_at=self._now(),
        )

    def _now(self) -> datetime:
        """The database's time, told by this host's monotonic clock since the batch began."""
        return datetime.fromtimestamp(self._epoch + self._runtime.clock(), UTC)


def _rest(
    mail: Waiting, result: Transaction, so_far: Conclusion
) -> tuple[Waiting, tuple[RecipientResult, ...]]:
    """Return the mail as it goes on to those who were not taken, and whoever was put off."""
    left = tuple(r.address for r in result.recipients if r.verdict is Verdict.NEXT)
    put_off = tuple(r for r in result.recipients if r.verdict is Verdict.RETRY)
    waiting = {*left, *(r.address for r in put_off)}
    settled = {status for address, status, _ in so_far.recipients if address not in waiting}
    rest = replace(
        mail,
        envelope=replace(mail.envelope, recipients=left),
        doubts=so_far.doubts,
        doubtful=mail.doubtful & waiting,
        settled=mail.settled | settled,
    )
    return rest, put_off


def _damaged(mail: Waiting) -> Conclusion:
    """The stored content is not what was enqueued: this mail fails alone, and the rest goes on."""
    end = settle(Status.FAILED, in_doubt=mail.doubts > 0)
    if RecipientStatus.SENT in mail.settled and end is Status.FAILED:
        end = Status.SENT
    reason = Reply(code=0, text="the stored content is missing or damaged")
    left = tuple(
        (a, RecipientStatus.UNKNOWN if a in mail.doubtful else RecipientStatus.FAILED, reason)
        for a in mail.envelope.recipients
    )
    return Conclusion(status=end, reply=reason, doubts=mail.doubts, recipients=left)
