"""The send task's work: open a window |> send |> record, until the batch is done.

At any moment at most one window of mails can be in doubt: a mail's content goes out only after its
window's opening has committed, and the next window opens in the transaction that records this one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from ..domain.conclusion import Conclusion, Facts, RecipientStatus, conclude
from ..domain.lifecycle import Status, settle
from ..domain.verdict import Phase, Reply, Transaction, Verdict
from ..smtp.connection import Connection
from ..store import breaker, lease
from ..store.counter import bump
from ..store.record import without_text
from ..store.release import suppress
from ..store.rows import Batch, Entry, Waiting
from ..store.window import advance, finish
from . import shutdown
from .contents import Contents
from .heartbeat import Heartbeat
from .persistence import outlast
from .runtime import Runtime

_log = logging.getLogger("outbox")

STALE = "stale_tasks"
"""The counter of send tasks that came twice, late or forged."""


def relay(runtime: Runtime, token: UUID) -> bool:
    """Send the batch of this token; False when the task came twice, late or forged.

    Whatever ends it early (halt, shutdown, a lost lease), mails that were not sent go back
    unsent and uncharged.
    """
    began, settings = runtime.clock(), runtime.settings
    batch = lease.start(runtime.database, token, lease=settings.lease, worker=runtime.worker)
    if batch is None:
        runtime.database.run(lambda connection: bump(connection, runtime.database, STALE))
        _log.info("outbox: a send task found no lease to start and changed nothing")
        return False
    heartbeat = Heartbeat(
        runtime.database,
        token,
        term=settings.lease,
        patience=settings.dot_timeout + settings.command_timeout,
        began=began,
        clock=runtime.clock,
    )
    with runtime.connection() as connection, heartbeat:
        _Relay(runtime, token, batch, connection, heartbeat, began).run()
    return True


class _Relay:
    """One batch on its way."""

    def __init__(
        self,
        runtime: Runtime,
        token: UUID,
        batch: Batch,
        connection: Connection,
        heartbeat: Heartbeat,
        began: float,
    ) -> None:
        self._runtime = runtime
        self._settings = runtime.settings
        self._database = runtime.database
        self._token = token
        self._batch = batch
        self._connection = connection
        self._heartbeat = heartbeat
        self._began = began
        self._contents = Contents(runtime.database, runtime.settings.window_bytes)
        self._results: list[Entry] = []
        self._settled = 0  # mails whose result is in the table, or among the results to come
        self._halted = False
        self._usable = False  # the server has judged a mail: it is up

    def run(self) -> None:
        """Send window after window, and leave nothing claimed behind."""
        for window in self._windows():
            opened = self._advance([mail.id for mail in window])
            self._send_window([mail for mail in window if mail.id in opened])
            if self._is_over():
                break
        self._finish()
        if self._usable and self._batch.halted:
            breaker.close(self._database, self._runtime.server.name)

    def _windows(self) -> Iterator[list[Waiting]]:
        """Cut the batch into windows, bounded in mails and bytes."""
        window: list[Waiting] = []
        size = 0
        for mail in self._sendable():
            full = len(window) == self._settings.window
            if window and (full or size + mail.size > self._settings.window_bytes):
                yield window
                window, size = [], 0
            window.append(mail)
            size += mail.size
        if window:
            yield window

    def _sendable(self) -> list[Waiting]:
        mails = list(self._batch.mails)
        barred = [mail.id for mail in mails if not mail.envelope.recipients]
        if barred:
            self._database.run(lambda c: suppress(c, self._database, self._token, barred))
        sendable = [mail for mail in mails if mail.envelope.recipients]
        self._contents.expect(sendable)
        return sendable

    def _send_window(self, mails: list[Waiting]) -> None:
        opened_at = self._runtime.clock()
        for mail in mails:
            if self._halted:
                self._add(mail, _given_back(mail), Verdict.HALT, Phase.MAIL, self._now())
                continue
            self._send(mail)
            self._heartbeat.progress()
            if self._runtime.clock() - opened_at > self._settings.window_seconds:
                self._advance([])
                opened_at = self._runtime.clock()

    def _is_over(self) -> bool:
        spent = self._runtime.clock() - self._began
        return (
            self._halted
            or shutdown.requested()
            or not self._heartbeat.holds()
            or spent > self._settings.batch_seconds
        )

    def _send(self, mail: Waiting) -> None:
        started = self._now()
        content = self._contents.of(mail)
        if content is None:
            self._add(mail, _damaged(mail), Verdict.FAIL, Phase.BODY, started)
            return
        result = self._transact(mail, content)
        conclusion = conclude(self._facts(mail), result, random=self._runtime.random)
        self._add(mail, conclusion, result.verdict, result.phase, started)
        if conclusion.again:
            self._send_rest(mail, result)

    def _send_rest(self, mail: Waiting, result: Transaction) -> None:
        """Go on with the recipients that one transaction did not take.

        The outcomes so far are committed first, so that nobody who has the mail gets it again.
        """
        self._advance([])
        left = tuple(r.address for r in result.recipients if r.verdict is Verdict.NEXT)
        put_off = tuple(r for r in result.recipients if r.verdict is Verdict.RETRY)
        settled = {_SETTLED[r.verdict] for r in result.recipients if r.verdict in _SETTLED}
        rest = replace(
            mail,
            envelope=replace(mail.envelope, recipients=left),
            settled=mail.settled | settled,
        )
        started, content = self._now(), self._contents.of(mail)
        following = self._transact(rest, content or b"")
        merged = replace(following, recipients=following.recipients + put_off)
        conclusion = conclude(self._facts(rest), merged, random=self._runtime.random)
        self._add(rest, conclusion, following.verdict, following.phase, started)
        if conclusion.again:
            self._send_rest(rest, merged)

    def _transact(self, mail: Waiting, content: bytes) -> Transaction:
        result = self._connection.send(mail.envelope, content, self._heartbeat.holds)
        if result.verdict is Verdict.UNSENT:
            result = self._why_unsent(result)
        if result.verdict is Verdict.HALT:
            self._halt(result)
        elif result.verdict is not Verdict.UNSENT:
            self._usable = True
        return result

    def _why_unsent(self, result: Transaction) -> Transaction:
        """Tell an outage and a lost lease, which charge nobody, from a mail the server drops."""
        if not self._heartbeat.holds():
            self._halted = True
            return replace(result, verdict=Verdict.HALT)
        outage = self._connection.connect()
        return result if outage is None else outage

    def _halt(self, result: Transaction) -> None:
        self._halted = True
        if self._heartbeat.holds():
            trip = partial(
                breaker.trip,
                self._database,
                self._runtime.server.name,
                reason=f"{result.phase}: {result.reply.code} {result.reply.text}",
                alert=result.alert,
                named=result.retry_after,
            )
            outlast(trip)  # results of this window wait for their record

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

    def _add(
        self,
        mail: Waiting,
        conclusion: Conclusion,
        verdict: Verdict,
        phase: Phase,
        started: datetime,
    ) -> None:
        if mail.suppressed:
            barred = tuple(
                (address, RecipientStatus.SUPPRESSED, Reply(code=0, text="suppressed"))
                for address in sorted(mail.suppressed)
            )
            conclusion = replace(conclusion, recipients=conclusion.recipients + barred)
        self._settled += not conclusion.again
        self._results.append(
            Entry(
                email_id=mail.id,
                conclusion=conclusion,
                verdict=verdict,
                phase=phase,
                several=mail.several,
                server=self._runtime.server.name,
                started_at=started,
                finished_at=self._now(),
            )
        )

    def _now(self) -> datetime:
        """The database's time, told by this host's monotonic clock since the batch began."""
        since = timedelta(seconds=self._runtime.clock() - self._began)
        return self._batch.began_at + since

    def _advance(self, following: list[int]) -> frozenset[int]:
        results, self._results = self._results, []
        worker = self._runtime.worker

        def record(entries: list[Entry], opening: list[int]) -> frozenset[int]:
            return advance(self._database, self._token, entries, opening, worker=worker)

        def record_bare(entries: list[Entry]) -> frozenset[int]:
            for entry in entries:
                outlast(partial(record, [without_text(entry)], []))
            return outlast(lambda: record([], following))

        return outlast(lambda: record(results, following), lambda: record_bare(results))

    def _finish(self) -> None:
        self._advance([])
        if self._settled == len(self._batch.mails):  # nothing is left to be given back
            outlast(lambda: lease.drop(self._database, self._token))
        else:
            outlast(lambda: finish(self._database, self._token, [], worker=self._runtime.worker))


_SETTLED = {Verdict.SENT: RecipientStatus.SENT, Verdict.FAIL: RecipientStatus.FAILED}


def _given_back(mail: Waiting) -> Conclusion:
    return Conclusion(status=Status.PENDING, reply=Reply(code=0), doubts=mail.doubts)


def _damaged(mail: Waiting) -> Conclusion:
    """The stored content is not what was enqueued: this mail fails alone, and the rest goes on."""
    end = settle(Status.FAILED, in_doubt=mail.doubts > 0)
    if RecipientStatus.SENT in mail.settled and end is Status.FAILED:
        end = Status.SENT
    reason = Reply(code=0, text="the stored content is missing or damaged")
    return Conclusion(status=end, reply=reason, doubts=mail.doubts)
