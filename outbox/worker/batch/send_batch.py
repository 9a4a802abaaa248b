"""The send task's work: open a window |> send |> record, until the batch is done.

At any moment at most one window of emails can be in doubt: an email's content goes out only after
its window's opening has committed, and the next window opens in the transaction that records it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from uuid import UUID

from ...store.connection.error_codes import describe
from ...store.connection.sqlite_memory import refuse_busy
from ...store.control import lease
from ...store.control.counter import bump
from ...store.control.rate_limits import seconds_until_open
from ...store.records import Batch, ClaimedEmail
from ...store.transitions import release
from ...store.transitions.start import start
from ...store.transitions.window import advance, finish
from ..process import shutdown
from ..process.retry_writes import until_written
from ..process.runtime import Runtime
from .batch_results import Results
from .heartbeat import Heartbeat
from .send_message import Delivery
from .send_window import Window
from .server_choice import ServerChoice
from .throttle import Throttle, return_relaned

_log = logging.getLogger("outbox")

STALE = "stale_tasks"
"""The counter of send tasks that came twice, late or forged."""


def relay(runtime: Runtime, token: UUID) -> bool:
    """Send the batch of this token; False where nothing was: another sweep would bring no more.

    So it is where the task came twice, late or forged, where no server has room, and where a rate
    let none go. Whatever ends it early (halt, shutdown, a lost lease), emails that were not sent go
    back unsent and uncharged. A batch without emails is a probe: it opens a session, no more.
    """
    settings = runtime.settings
    refuse_busy(runtime.database.engine)  # who waited for the caller would wait for ever
    began, batch = until_written(lambda: _start(runtime, token))
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
        batch = return_relaned(runtime, token, batch)
        with ServerChoice(
            runtime, token, batch, progress=heartbeat.progress, goes_on=heartbeat.goes_on
        ) as way:
            work = _Relay(runtime, token, batch, way, heartbeat, began)
            # What another process has claimed, one that sends, goes back from here.
            is_worth_a_sweep = not runtime.suppressed() and work.run()
        # Only now: a place under a server's connection cap comes free with the lease.
        work.finish()
    return is_worth_a_sweep


def _start(runtime: Runtime, token: UUID) -> tuple[float, Batch | None]:
    """Start the lease; return the moment before that was asked for, and the batch."""
    began, term = runtime.clock(), runtime.settings.lease
    return began, start(runtime.database, token, lease_seconds=term, worker=runtime.worker)


class _Relay:
    """One batch on its way."""

    def __init__(
        self,
        runtime: Runtime,
        token: UUID,
        batch: Batch,
        way: ServerChoice,
        heartbeat: Heartbeat,
        began: float,
    ) -> None:
        self._runtime = runtime
        self._settings = runtime.settings
        self._database = runtime.database
        self._token = token
        self._batch = batch
        self._way = way
        self._heartbeat = heartbeat
        self._began = began
        self._delivery = Delivery(runtime, batch, holds=heartbeat.holds, began=began)
        self._pace = Throttle(runtime, batch, holds=heartbeat.holds)
        self._results = Results(runtime, token, progress=heartbeat.progress)
        self._most = self._settings.window  # emails of the next window

    def run(self) -> bool:
        """Send window after window, and record every result; return whether a sweep is worth it."""
        try:
            moved = self._send_windows() if self._batch.mails else self._probe_session()
            self._results.advance()
        except BaseException as error:
            # Whatever ends it, a result that is known must not become a doubt. What is still open
            # stays so: its lease runs out and the rescue judges it.
            with suppress(Exception):
                if isinstance(error, Exception) and not shutdown.requested():
                    self._results.advance()
                else:  # this process shall end: there is time for one try
                    self._results.record_once()
            raise
        for watch in self._way.watches:
            watch.settle()
        return moved

    def finish(self) -> None:
        """Give back what was not sent, and end the lease."""
        if self._results.waiting:  # a person's transaction holds their rows: nobody waits for it
            self._runtime.unrecorded.keep(self._token, self._results.waiting)
        elif self._results.settled == len(self._batch.mails):  # nothing is left to be given back
            until_written(lambda: lease.drop(self._database, self._token))
        else:
            until_written(
                lambda: finish(self._database, self._token, [], worker=self._runtime.worker)
            )

    def _probe_session(self) -> bool:
        """Ask a server whose breaker is open for a session; return whether it can be used again."""
        if not self._open_session(anew=True):
            return False
        self._way.watch.session_opened()
        return True

    def _open_session(self, *, anew: bool = False) -> bool:
        """Have a session with the first server that has room; False where none can be had.

        Before a window is open: a server that is away costs no email anything.
        """
        while self._way.begin():
            if self._is_connected(anew=anew):
                return True
        return False

    def _is_connected(self, *, anew: bool = False) -> bool:
        """Have a session with the chosen server; where it refuses one, leave it for good."""
        until = self._runtime.clock() + self._way.watch.session_seconds
        self._heartbeat.ask = lambda: self._runtime.clock() < until
        fault = self._way.connection.connect(anew=anew)
        self._heartbeat.progress()
        if fault is not None:
            self._way.watch.session_failed(fault)
            self._way.drop()
        return fault is None

    def _send_windows(self) -> bool:
        """Send until nothing is left, or something ends the batch; False where none could go."""
        left = deque(self._sendable())
        while left:
            window = self._next_window(left)
            if not window:
                return bool(self._results.settled) or self._pace.must_yield()
            for _ in window:
                left.popleft()
            opened = self._results.advance([mail.id for mail in window])
            open_ = [mail for mail in window if mail.id in opened]
            # Where the next window may go over another server nothing is announced to this one.
            current = self._window()
            self._heartbeat.relieve = partial(self._relieve, current)
            self._heartbeat.ask = partial(self._goes_on, current)
            late = current.send(open_, left, announces=not self._way.rates)
            if current.is_relieved:
                break
            if late:  # the next window is no larger than what the server takes in a window's time
                self._most = max(1, len(open_) - len(late))
                left.extendleft(reversed(late))
                self._results.advance()  # one statement cannot close and open the same row
            self._heartbeat.progress()
            if self._is_over():
                break
        return True

    def _window(self) -> Window:
        return Window(
            self._runtime,
            self._way,
            self._delivery,
            self._pace,
            self._results,
            self._heartbeat.holds,
        )

    def _relieve(self, window: Window) -> None:
        """Give back what waits behind an email that is slow: all of the batch that is not tried."""
        slow, waiting = window.slow, window.relieve()
        if slow is None or waiting is None:
            return
        self._way.watch.note_slow(slow)
        database, token = self._database, self._token
        advance(database, token, waiting, (), worker=self._runtime.worker)
        database.run(partial(release.give_back_claimed, database=database, token=token))

    def _goes_on(self, window: Window) -> bool:
        """Whether a silent server is waited for: not where others wait, and no process is free."""
        slow = window.slow
        if slow is None:
            return True
        try:
            if self._results.waiting:  # else those that were sent would be in doubt for as long
                self._results.record_once()
            if window.is_relieved:
                return not self._way.watch.gives_up(slow, window.seconds)
            self._relieve(window)
        except Exception as error:  # noqa: BLE001  (the reply may come; it is asked again soon)
            _log.warning("outbox: who waits could not be asked (%s)", describe(error))
        return True

    def _next_window(self, left: deque[ClaimedEmail]) -> list[ClaimedEmail]:
        """Return the next emails, with their permits; none where those are not to be had soon.

        They go over the first server whose rate lets them, or over the one that does so soonest.
        """
        if not self._open_session():
            return []
        self._arrange(left)
        for _ in range(len(rates := self._way.rates)):
            if not self._way.choose(
                until_written(partial(seconds_until_open, self._database, rates))
            ):
                return []
            if not self._is_connected():
                continue
            window = self._cut(left)
            if self._pace.permit(window, beside=self._way.buckets, patience=0.0):
                return window  # or else others were faster
        window = self._cut(left)
        permitted = self._pace.permit(
            window, beside=self._way.buckets, before_wait=self._results.advance
        )
        return window if permitted else []

    def _arrange(self, left: deque[ClaimedEmail]) -> None:
        """Under suspicion the email that differs most from the suspects goes first.

        And what is like one to which the server says nothing goes last.
        """
        watch = self._way.watch
        if not watch.is_choosy:
            return
        mails = [left[place] for place in watch.order([mail.traits for mail in left])]
        mails.insert(0, mails.pop(watch.pick([mail.traits for mail in mails])))
        left.clear()
        left.extend(mails)

    def _cut(self, left: Iterable[ClaimedEmail]) -> list[ClaimedEmail]:
        """Cut off a window, bounded in emails, bytes, and recipients where a rate says."""
        window: list[ClaimedEmail] = []
        most = min([self._pace.window_limit(), *(r.chunk for r in self._way.buckets.values())])
        size = recipients = 0
        for mail in islice(left, self._most):
            size += mail.size
            recipients += len(mail.envelope.recipients)
            if window and (size > self._settings.window_bytes or recipients > most):
                break
            window.append(mail)
        return window

    def _sendable(self) -> list[ClaimedEmail]:
        """Return the emails that have somebody to go to; leave out whoever is suppressed."""
        sendable = [mail for mail in self._batch.mails if mail.envelope.recipients]
        barred = [mail.id for mail in self._batch.mails if not mail.envelope.recipients]
        partly = {mail.id: mail.suppressed for mail in sendable if mail.suppressed}
        if barred or partly:
            bar = partial(release.suppress, database=self._database, token=self._token)
            until_written(lambda: self._database.run(partial(bar, ids=barred, partly=partly)))
        return sendable

    def _is_over(self) -> bool:
        spent = self._runtime.clock() - self._began
        return (
            shutdown.requested()
            or not self._heartbeat.holds()
            or spent > self._settings.batch_seconds
            or self._pace.must_yield()
        )
