"""The send task's work: open a window |> send |> record, until the batch is done.

At any moment at most one window of emails can be in doubt. An email's content leaves only after its
window's opening has committed. The next window opens in the transaction that records this one.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from uuid import UUID

from ...domain.counted import counted
from ...store.control import lease
from ...store.control.circuit_breaker import give_back_probe
from ...store.control.counter import bump
from ...store.records import Batch, ClaimedEmail
from ...store.transitions import release
from ...store.transitions.start import start
from ...store.transitions.window import abandon, finish
from ..leases.heartbeat import Heartbeat
from ..leases.in_hand import taken
from ..process import shutdown
from ..process.retry_writes import HASTE, until_written
from ..process.runtime import Runtime
from .batch_end import BatchEnd, BatchReport
from .batch_results import Results
from .next_window import NextWindow
from .relief import Relief
from .renewable import renewable
from .result_factory import ResultFactory
from .send_email import EmailSender
from .send_window import Window
from .server_choice import ServerChoice
from .throttle import LOOK, Throttle, return_relaned

_log = logging.getLogger("outbox")

CUT_OFF_PAUSE = 1.0
"""Seconds for which a process takes no other task where another host must send its batch."""

STALE = "stale_tasks"
"""The counter of send tasks that came twice, late or forged."""


def send_batch(runtime: Runtime, token: UUID) -> BatchReport:
    """Send the batch of this token; return why it ended.

    If a halt, a shutdown or a lost lease ends it early, emails that were not sent go back
    uncharged. A probe without emails only opens a session.
    """
    if not runtime.suppressed() and runtime.instance.refusal():
        return BatchReport(BatchEnd.COPY)  # a task of the original's, or of a time before a restore
    runtime.database.refuse_busy()  # a wait for the caller's transaction would never end
    with taken(token) as is_free, renewable(runtime.heartbeats) as is_renewable:
        if not is_renewable:
            until_written(lambda: lease.decline(runtime.database, token))
            return BatchReport(BatchEnd.NO_THREAD)
        began, batch = _start(runtime, token) if is_free else (0.0, None)
        if batch is None:
            runtime.database.run(lambda connection: bump(connection, runtime.database, STALE))
            _log.info("outbox: a send task found no lease to start and changed nothing")
            return BatchReport(BatchEnd.STALE)
        return _send(runtime, token, batch, began)


def _start(runtime: Runtime, token: UUID) -> tuple[float, Batch | None]:
    """Start the lease; return the time on our clock before it was asked for, and the batch.

    The commit of a start that has failed may have come through, with its reply lost.
    """
    term, worker, process = runtime.settings.lease, runtime.worker, runtime.process
    asked: list[float] = []

    def write() -> Batch | None:
        again = bool(asked)
        asked.append(runtime.clock())
        return start(
            runtime.database, token, lease_seconds=term, worker=worker, process=process, again=again
        )

    batch = until_written(write)
    return asked[-1], batch


def _send(runtime: Runtime, token: UUID, batch: Batch, began: float) -> BatchReport:
    """Send a started batch and end its lease."""
    with _heartbeat(runtime, token, began) as heartbeat:
        with _given_back_on_error(runtime, token, heartbeat):
            batch = return_relaned(runtime, token, batch)
        with ServerChoice(
            runtime, token, batch, progress=heartbeat.progress, goes_on=heartbeat.goes_on
        ) as choice:
            sending = _Sending(runtime, token, batch, choice, heartbeat)
            # Emails of an app that sends nothing, claimed by a process that does send, go back.
            end = BatchEnd.SENDING_OFF if runtime.suppressed() else sending.run()
        # Only now, as the end of the lease frees a place under the server's connection cap.
        with _given_back_on_error(runtime, token, heartbeat):
            settled = sending.finish()
    if end is BatchEnd.CUT_OFF:
        _pause()
    _log.debug("outbox: a batch ended: %s, %s settled", end, counted(settled, "email"))
    return BatchReport(end, settled)


def _pause() -> None:
    """Take no other task for a moment: this process would have the next one, and return that too.

    A shutdown ends it.
    """
    for _ in range(round(CUT_OFF_PAUSE / LOOK)):
        if shutdown.requested():
            return
        time.sleep(LOOK)


def _heartbeat(runtime: Runtime, token: UUID, began: float) -> Heartbeat:
    settings = runtime.settings
    return Heartbeat(
        runtime.heartbeats,
        token,
        term=settings.lease,
        patience=settings.dot_timeout + settings.command_timeout,
        began=began,
        clock=runtime.clock,
    )


@contextmanager
def _given_back_on_error(runtime: Runtime, token: UUID, heartbeat: Heartbeat) -> Iterator[None]:
    """If an error that no email has caused ends the block, give back the emails that wait."""
    try:
        yield
    except BaseException as error:
        if shutdown.is_nobodys_fault(error):
            _abandon(runtime, token, heartbeat, error)
        raise


def _abandon(runtime: Runtime, token: UUID, heartbeat: Heartbeat, error: BaseException) -> None:
    """Give back what waits for a window; else the rescue would charge each of these emails."""
    write, patience = partial(abandon, runtime.database, token), _patience(error)
    with suppress(Exception):
        until_written(write, meanwhile=heartbeat.progress, patience=patience)


def _patience(error: BaseException) -> float:
    """Return for how many seconds to repeat a write after this error."""
    return inf if isinstance(error, Exception) else HASTE


class _Sending:
    """The sending of one batch."""

    def __init__(
        self,
        runtime: Runtime,
        token: UUID,
        batch: Batch,
        choice: ServerChoice,
        heartbeat: Heartbeat,
    ) -> None:
        self._runtime = runtime
        self._token = token
        self._batch = batch
        self._choice = choice
        self._heartbeat = heartbeat
        began, holds = heartbeat.began, heartbeat.holds
        self._sender = EmailSender(runtime, batch, holds=holds, began=began)
        self._factory = ResultFactory(runtime, batch, began=began)
        self._throttle = Throttle(runtime, batch, holds=holds)
        self._next = NextWindow(runtime, choice, self._throttle, heartbeat)
        self._results = Results(runtime, token, progress=heartbeat.progress)
        self._window: Window | None = None
        self._is_over = False  # no email can cause an error any more

    def run(self) -> BatchEnd:
        """Open a window, send it, record it, and repeat; return why the batch ended."""
        with self._kept_on_error():
            if self._choice.is_cut_off:
                return self._leave_to_others()
            left = deque(self._sendable())
            # Another batch may be empty, too: its emails were withdrawn, or are another lane's now.
            is_probe = self._batch.probed is not None and not self._batch.emails
            end = self._probe() if is_probe else None
            while left and end is None:
                window = self._next.cut(left, before_wait=self._results.record)
                if isinstance(window, BatchEnd):
                    # Urgent email that waits for a process cuts a wait for permits short too. It
                    # needs a sweep, which YIELDED brings, and which `window` alone would not.
                    end = BatchEnd.YIELDED if self._throttle.must_yield() else window
                    break
                # One transaction records the last window and opens this one.
                opened = self._results.record_and_open([email.id for email in window])
                end = self._send([e for e in window if e.id in opened], left) or self._end()
            self._results.record()
            self._is_over = True
            for watch in self._choice.watches:
                watch.settle()
        return end or BatchEnd.DONE

    def finish(self) -> int:
        """Give back what was not sent, and end the lease; return how many emails are settled."""
        database, results = self._runtime.database, self._results
        if results.waiting:  # a person's transaction holds their rows: do not wait for it
            self._runtime.unrecorded.keep(self._token, results.waiting)
        elif results.settled == len(self._batch.emails):  # nothing is left to be given back
            until_written(lambda: lease.drop(database, self._token))
        else:
            until_written(lambda: finish(database, self._token, [], worker=self._runtime.worker))
        return results.settled

    def _send(self, opened: list[ClaimedEmail], left: deque[ClaimedEmail]) -> BatchEnd | None:
        """Send an open window; put the emails that it had no time for back into `left`."""
        window = self._window = Window(
            self._runtime, self._choice, self._sender, self._throttle, self._factory, self._results
        )
        relief = Relief(
            runtime=self._runtime,
            token=self._token,
            window=window,
            choice=self._choice,
            results=self._results,
        )
        self._heartbeat.relieve, self._heartbeat.ask = relief.give_back, relief.goes_on
        # The next window may go over another server: then nothing is announced to this one.
        late = window.send(opened, left, announces=not self._choice.rates)
        if window.is_relieved:
            return BatchEnd.RELIEVED
        if late:  # the next window is no larger than what the server takes in a window's time
            self._next.max_emails = max(1, len(opened) - len(late))
            self._results.record()  # one statement cannot close and open the same row
            left.extendleft(e for e in reversed(late) if not self._results.holds(e.id))
        self._heartbeat.progress()
        return None

    def _end(self) -> BatchEnd | None:
        """Return why the batch ends between two windows, or None where it goes on."""
        if shutdown.requested():
            return BatchEnd.SHUTDOWN
        if not self._heartbeat.holds():
            return BatchEnd.LEASE_LOST
        if self._runtime.clock() - self._heartbeat.began > self._runtime.settings.batch_seconds:
            return BatchEnd.TIME_UP
        return BatchEnd.YIELDED if self._throttle.must_yield() else None

    def _probe(self) -> BatchEnd:
        """Try to open a session with a server whose breaker is open."""
        if not self._next.open_session(anew=True):
            return BatchEnd.NO_SERVER
        self._choice.watch.session_opened()
        return BatchEnd.PROBED

    def _leave_to_others(self) -> BatchEnd:
        """Let other hosts send the batch: a probe is not made here, so it is not counted."""
        database = self._runtime.database
        if self._batch.probed is not None:
            back = partial(give_back_probe, database=database, token=self._token)
            until_written(lambda: database.run(back))
        return BatchEnd.CUT_OFF

    def _sendable(self) -> list[ClaimedEmail]:
        """Return the emails that have recipients; record those that are suppressed."""
        sendable = [email for email in self._batch.emails if email.envelope.recipients]
        barred = [email.id for email in self._batch.emails if not email.envelope.recipients]
        partly = {email.id: email.suppressed for email in sendable if email.suppressed}
        if barred or partly:
            database = self._runtime.database
            bar = partial(release.suppress, database=database, token=self._token)
            until_written(lambda: database.run(partial(bar, ids=barred, partly=partly)))
        return sendable

    @contextmanager
    def _kept_on_error(self) -> Iterator[None]:
        """If an error ends the batch, record the known results, and give back what was not sent.

        An email of the open window without a result stays open: its lease runs out, and the rescue
        judges it. The rest stays claimed if any email may be to blame: the rescue charges a crash.
        """
        try:
            yield
        except BaseException as error:
            with suppress(Exception):
                self._results.record(patience=_patience(error))
            is_known = self._is_over or (self._window is not None and self._window.has_crashed)
            if is_known or shutdown.is_nobodys_fault(error):
                _abandon(self._runtime, self._token, self._heartbeat, error)
            raise
