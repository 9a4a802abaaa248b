"""The send task's work: open a window |> send |> record, until the batch is done.

At any moment at most one window of mails can be in doubt: a mail's content goes out only after its
window's opening has committed, and the next window opens in the transaction that records this one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from ..store import breaker, lease, release
from ..store.counter import bump
from ..store.rate import waits
from ..store.record import without_text
from ..store.rows import Batch, Entry, Waiting
from ..store.window import advance, finish
from . import shutdown
from .delivery import Delivery
from .heartbeat import Heartbeat
from .pace import Pace, sort_out
from .persistence import outlast
from .runtime import Runtime
from .way import Way

_log = logging.getLogger("outbox")

STALE = "stale_tasks"
"""The counter of send tasks that came twice, late or forged."""

_REFUSED = (DBAPIError, UnicodeError)
"""What a database raises for data that it does not take, or its driver for a text."""


def relay(runtime: Runtime, token: UUID) -> bool:
    """Send the batch of this token; False where nothing was: another sweep would bring no more.

    So it is where the task came twice, late or forged, where no server has room, and where a rate
    let none go. Whatever ends it early (halt, shutdown, a lost lease), mails that were not sent go
    back unsent and uncharged.
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
    with heartbeat:
        batch = sort_out(runtime, token, batch)
        with Way(runtime, token, batch) as way:
            work = _Relay(runtime, token, batch, way, heartbeat, began)
            sent = way.go_on()
            if sent:
                work.run()
        # Only now: a place under a server's connection cap comes free with the lease.
        work.finish()
    return sent and not work.in_vain


class _Relay:
    """One batch on its way."""

    def __init__(
        self,
        runtime: Runtime,
        token: UUID,
        batch: Batch,
        way: Way,
        heartbeat: Heartbeat,
        began: float,
    ) -> None:
        self._runtime = runtime
        self._settings = runtime.settings
        self._database = runtime.database
        self._token = token
        self._batch = batch
        self._way = way
        self._delivery = Delivery(runtime, batch, way, heartbeat, began)
        self._pace = Pace(runtime, batch, holds=heartbeat.holds)
        self._heartbeat = heartbeat
        self._began = began
        self._results: list[Entry] = []
        self._settled = 0  # mails whose result is in the table, or among the results to come
        self.in_vain = False  # a rate let none of it go

    def run(self) -> None:
        """Send window after window, and record every result that is known."""
        try:
            self._send_windows()
            self._advance([])
        except BaseException:
            # Whatever ends it, a result that is known must not become a doubt. What is still open
            # stays so: its lease runs out and the rescue judges it.
            with suppress(Exception):
                self._record(self._results, [])
            raise
        for refusals in self._way.watched:
            refusals.settle()

    def finish(self) -> None:
        """Give back what was not sent, end the lease, and close the breaker if the server is up."""
        if self._settled == len(self._batch.mails):  # nothing is left to be given back
            outlast(lambda: lease.drop(self._database, self._token))
        else:
            outlast(lambda: finish(self._database, self._token, [], worker=self._runtime.worker))
        if self._delivery.usable and self._way.halted and not self._delivery.halted:
            breaker.close(self._database, self._way.server.name)

    def _send_windows(self) -> None:
        left = deque(self._sendable())
        while left:
            window = self._next_window(left)
            if not window:
                self.in_vain = not self._settled and not self._pace.gives_way()
                break
            for _ in window:
                left.popleft()
            opened = self._advance([mail.id for mail in window])
            # Where the next window may go over another server nothing is announced to this one.
            behind = [] if self._way.rates else list(islice(left, 1))
            self._send_window([mail for mail in window if mail.id in opened], behind)
            if self._is_over():
                break

    def _next_window(self, left: Iterable[Waiting]) -> list[Waiting]:
        """Return the next mails, with their permits; none where those are not to be had soon.

        They go over the first server whose rate lets them, or over the one that does so soonest.
        """
        for _ in range(len(rates := self._way.rates)):
            if not self._way.choose(outlast(partial(waits, self._database, rates))):
                return []
            window = self._cut(left)
            if self._pace.permit(window, beside=self._way.buckets, patience=0.0):
                return window  # or else others were faster
        window = self._cut(left)
        permitted = self._pace.permit(
            window, beside=self._way.buckets, before_wait=lambda: self._advance([])
        )
        return window if permitted else []

    def _cut(self, left: Iterable[Waiting]) -> list[Waiting]:
        """Cut off a window, bounded in mails, bytes, and recipients where a rate says."""
        window: list[Waiting] = []
        most = min([self._pace.window_limit(), *(r.chunk for r in self._way.buckets.values())])
        size = recipients = 0
        for mail in islice(left, self._settings.window):
            size += mail.size
            recipients += len(mail.envelope.recipients)
            if window and (size > self._settings.window_bytes or recipients > most):
                break
            window.append(mail)
        return window

    def _sendable(self) -> list[Waiting]:
        """Return the mails that have somebody to go to; end those whose recipients are barred."""
        barred = [mail.id for mail in self._batch.mails if not mail.envelope.recipients]
        if barred:
            self._database.run(lambda c: release.suppress(c, self._database, self._token, barred))
        return [mail for mail in self._batch.mails if mail.envelope.recipients]

    def _send_window(self, mails: list[Waiting], behind: list[Waiting]) -> None:
        """Send the mails of the open window; `behind` holds the first mail of the next one.

        Its envelope may leave before its window is open: only a content can be in doubt.
        """
        opened_at = self._runtime.clock()
        for mail, following in zip(mails, [*mails[1:], *behind, None], strict=False):
            if self._delivery.halted:
                self._add(self._delivery.give_back(mail))
                continue
            for entry in self._delivery.deliver(mail, following):
                self._add(entry)
                if entry.conclusion.again:
                    self._advance([])
            if self._delivery.innocent:
                self._acquit(mails)
            self._heartbeat.progress()
            if self._runtime.clock() - opened_at > self._settings.window_seconds:
                self._advance([])
                opened_at = self._runtime.clock()

    def _acquit(self, mails: list[Waiting]) -> None:
        """Charge none of those whom the server refused as it refuses everybody."""
        innocent = self._delivery.innocent
        uncharged = {m.id: self._delivery.give_back(m) for m in mails if m.id in innocent}
        self._results = [uncharged.get(e.email_id, e) for e in self._results]

    def _add(self, entry: Entry) -> None:
        self._results.append(entry)
        self._settled += not entry.conclusion.again

    def _is_over(self) -> bool:
        spent = self._runtime.clock() - self._began
        return (
            self._delivery.halted
            or shutdown.requested()
            or not self._heartbeat.holds()
            or spent > self._settings.batch_seconds
            or self._pace.gives_way()
        )

    def _advance(self, following: list[int]) -> frozenset[int]:
        results, self._results = self._results, []
        try:
            return outlast(lambda: self._record(results, following))
        except _REFUSED:  # once more without their texts, and each by itself
            _log.warning("outbox: a record was refused and is made again without texts")
        refused: list[Exception] = []
        for entry in results:
            try:
                outlast(partial(self._record, [without_text(entry)], []))
            except _REFUSED as error:
                refused.append(error)
        if refused:  # not to be given back as unsent: the rescue shall judge them
            raise refused[0]
        return outlast(lambda: self._record([], following))

    def _record(self, results: list[Entry], following: list[int]) -> frozenset[int]:
        worker = self._runtime.worker
        return advance(self._database, self._token, results, following, worker=worker)
