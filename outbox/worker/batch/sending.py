"""The sending of one batch: open a window |> send |> record, until the batch is done.

At any moment at most one window of emails can be in doubt. An email's content leaves only after its
window's opening has committed. The next window opens in the transaction that records this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from ...domain.delivery.breaker_timing import Cause
from ...store.control import lease
from ...store.control.circuit_breaker import give_back_probe
from ...store.records import Batch, ClaimedEmail
from ...store.transitions import release
from ...store.transitions.window import finish
from ..leases.heartbeat import Heartbeat
from ..process import shutdown
from ..process.retry_writes import until_written
from ..process.runtime import Runtime
from .batch_end import BatchEnd
from .batch_results import Results
from .cleanup import Cleanup
from .next_window import NextWindow
from .result_factory import Outgoing, ResultFactory
from .send_email import EmailSender
from .send_window import Window
from .server_choice import ServerChoice
from .silence.relief import Relief
from .throttle import Throttle


class Sending:
    """The sending of one batch."""

    def __init__(
        self,
        runtime: Runtime,
        token: UUID,
        batch: Batch,
        choice: ServerChoice,
        heartbeat: Heartbeat,
        results: Results,
        cleanup: Cleanup,
    ) -> None:
        """`cleanup` is told what it has to know where an error ends the batch."""
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
        self._results = results
        self._cleanup = cleanup

    def run(self) -> BatchEnd:
        """Send the batch; then try again a server that this process has left."""
        end = self._leave_to_others() if self._choice.is_cut_off else self._send_all()
        if end is BatchEnd.YIELDED:  # urgent email waits for this process
            return end
        return BatchEnd.PROBED if self._opens_again() else end

    def _send_all(self) -> BatchEnd:
        """Open a window, send it, record it, and repeat; return why the batch ended."""
        left = deque(self._sendable())
        # Another batch may be empty, too: its emails were withdrawn, or are another lane's now.
        is_probe = self._batch.probed is not None and not left
        end = self._probe() if is_probe else None
        while left and end is None:
            window = self._next.cut(left, before_wait=self._record_known)
            if isinstance(window, BatchEnd):
                # Urgent email that waits for a process cuts a wait for permits short too. It
                # needs a sweep, which YIELDED brings, and which `window` alone would not.
                end = BatchEnd.YIELDED if self._throttle.must_yield() else window
                break
            opened = self._open(window)
            if not opened and self._is_probe_by_email:  # it was withdrawn, or somebody holds it
                self._give_back_probe()
            end = self._send([e for e in window if e.id in opened], left) or self._end()
        self._results.record()
        self._cleanup.is_over = True
        for watch in self._choice.watches:
            watch.settle()
        return end or BatchEnd.DONE

    def finish(self) -> int:
        """Give back what was not sent, and end the lease; return how many emails are settled."""
        database, results = self._runtime.database, self._results
        if self._cleanup.leaves_reply():
            pass  # it ends the batch
        elif results.waiting:  # a person's transaction holds their rows: do not wait for it
            self._runtime.unrecorded.keep(self._token, results.take())
        elif results.settled == len(self._batch.emails):  # nothing is left to be given back
            until_written(lambda: lease.drop(database, self._token))
        else:
            worker = self._runtime.worker
            if until_written(lambda: finish(database, self._token, [], worker=worker)).left:
                self._runtime.unended.keep(self._token)
        return results.settled

    def _record_known(self) -> None:
        """Record what is known, before a wait in which it would be in doubt."""
        if self._results.waiting:
            self._results.record()

    def _open(self, window: Sequence[ClaimedEmail]) -> frozenset[int]:
        """Record the last window and open this one in one transaction; return what was opened.

        After an error it may be open all the same: a receiver of a signal is called behind the
        commit, where the task's time limit may end it. None of these emails has left.
        """
        try:
            return self._results.record_and_open([email.id for email in window])
        except BaseException:
            now = self._factory.now()
            for email in window:
                back = Outgoing(email=email, started_at=now)
                self._results.add(self._factory.give_back(back))
            raise

    def _send(self, opened: list[ClaimedEmail], left: deque[ClaimedEmail]) -> BatchEnd | None:
        """Send an open window; put the emails that it had no time for back into `left`."""
        window = self._cleanup.window = Window(
            self._runtime, self._choice, self._sender, self._throttle, self._factory, self._results
        )
        results, holds = self._results, self._heartbeat.holds
        relief = Relief(self._runtime, self._token, window, self._choice, results, holds=holds)
        self._heartbeat.relieve = relief.give_back
        self._heartbeat.ask, self._heartbeat.ask_behind = relief.goes_on, relief.stays
        self._cleanup.relief = relief
        # The next window may go over another server: then nothing is announced to this one.
        late = window.send(opened, left, announces=not self._choice.rates)
        if window.todo.is_relieved:
            return BatchEnd.RELIEVED
        if late:  # the next window is no larger than what the server takes in a window's time
            self._next.max_emails = max(1, len(opened) - len(late))
            self._results.record()  # one statement cannot close and open the same row
            left.extendleft(e for e in reversed(late) if self._results.may_open_again(e.id))
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
        """Try to open a session with a server whose breaker is open.

        Where that one halts every email, a session tells nothing. The probe has lost its email, and
        the next one is made with another.
        """
        if self._is_probe_by_email:
            self._give_back_probe()
            return BatchEnd.DONE
        if not self._next.open_session(anew=True):
            return BatchEnd.NO_SERVER
        self._choice.watch.session_opened()
        return BatchEnd.PROBED

    @property
    def _is_probe_by_email(self) -> bool:
        """Whether only an email can tell if the probed server is well: it halts each of them."""
        breaker = self._batch.breakers.get(self._batch.probed or "")
        return breaker is not None and breaker.cause is Cause.EMAILS

    def _leave_to_others(self) -> BatchEnd:
        """Let other hosts send the batch: a probe is not made here."""
        if self._batch.probed is not None:
            self._give_back_probe()
        return BatchEnd.CUT_OFF

    def _opens_again(self) -> bool:
        """Try a server again that this process has left; return whether a session has opened.

        The batch's emails do not wait for that: they are recorded, or given back first. While the
        reply to a content is awaited, the batch keeps the server that it comes from.
        """
        window = self._cleanup.window
        if window is not None and window.is_awaited:
            return False
        if self._results.waiting or shutdown.requested() or not self._heartbeat.holds():
            return False
        return self._next.opens_again(before=self._give_back)

    def _give_back(self) -> None:
        database = self._runtime.database
        back = partial(release.give_back_claimed, database=database, token=self._token)
        until_written(lambda: database.run(back))

    def _give_back_probe(self) -> None:
        """Give back a probe that was not made, so that it does not count as failed."""
        database = self._runtime.database
        back = partial(give_back_probe, database=database, token=self._token)
        until_written(lambda: database.run(back))

    def _sendable(self) -> list[ClaimedEmail]:
        """Return the emails that have recipients; record those that are suppressed."""
        sendable = [email for email in self._batch.emails if email.envelope.recipients]
        barred = [email.id for email in self._batch.emails if not email.envelope.recipients]
        partly = {email.id: email.suppressed for email in sendable if email.suppressed}
        if barred or partly:
            database = self._runtime.database
            bar = partial(
                release.suppress,
                database=database,
                token=self._token,
                ids=barred,
                partly=partly,
                erased=self._batch.erased,
            )
            faulty = until_written(lambda: database.run(bar))
            sendable = [email for email in sendable if email.id not in faulty]
        return sendable
