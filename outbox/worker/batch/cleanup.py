"""What is done where an error ends a batch: known results are kept, unsent emails given back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded

from ...store.connection.error_codes import is_refusal
from ...store.transitions.window import abandon
from ..leases.heartbeat import Heartbeat
from ..process import shutdown
from ..process.retry_writes import HASTE, until_written
from ..process.runtime import Runtime
from .batch_results import Results
from .send_window import Window
from .silence.late_reply import LateReply
from .silence.relief import Relief


class Cleanup:
    """Cleans up behind an error that ends the batch, wherever it is raised."""

    def __init__(
        self, runtime: Runtime, token: UUID, heartbeat: Heartbeat, results: Results
    ) -> None:
        self._runtime = runtime
        self._token = token
        self._heartbeat = heartbeat
        self._results = results
        self.window: Window | None = None  # the one that was opened last
        self.relief: Relief | None = None  # that of this window
        self.is_over = False  # no email can cause an error any more
        self._is_done = False

    @contextmanager
    def on_error(self) -> Iterator[None]:
        """If an error ends the block, record the known results, and give back what was not sent.

        An email of the open window without a result stays open: its lease runs out, and the rescue
        judges it. The rest stays claimed if any email may be to blame: the rescue charges a crash.
        """
        try:
            yield
        except BaseException as error:
            if not self._is_done:
                self._clean_up(error)
            raise

    def _clean_up(self, error: BaseException) -> None:
        self._is_done = True  # a process that is ended has no time for it again, in an outer block
        in_haste = self._may_be_killed(error)
        after_record, self._results.after_record = self._results.after_record, []
        if self.relief is not None:  # else the rescue would take these for emails in doubt
            for entry in self.relief.take():
                self._results.add(entry)
        in_haste |= self._record(in_haste=in_haste)
        is_known = (self.window is not None and self.window.has_crashed) or self._results.refused
        # It is known which email is at fault, or that none is.
        rest_is_innocent = self.is_over or is_known or self._results.table_fails
        if rest_is_innocent or shutdown.is_nobodys_fault(error):
            self._give_back(in_haste=in_haste)
        for call in after_record:
            call()
        self._leave_reply()

    def _may_be_killed(self, error: BaseException) -> bool:
        """Return whether the process may be killed soon: a hard time limit comes behind a soft one.

        Then a thread writes what is not written by now, and the task ends.
        """
        if isinstance(error, SoftTimeLimitExceeded):
            return self._runtime.has_hard_limit
        return not isinstance(error, Exception)

    def leaves_reply(self) -> bool:
        """Leave it to a thread to wait for the reply to a content, if the batch lacks one.

        Returns whether it does. Then the thread ends the batch.
        """
        if self.window is None or not self.window.is_awaited:
            return False
        for entry in self.relief.take() if self.relief is not None else ():
            self._results.add(entry)
        self._record(in_haste=False)
        self._leave_reply()
        return True

    def _leave_reply(self) -> None:
        if self.window is not None and self.window.is_awaited:
            LateReply(self._runtime, self._token, self.window, self._results).leave()

    def _record(self, *, in_haste: bool) -> bool:
        """Record the known results, and keep those whose rows are locked.

        In haste a thread records them all: even a first try may take long, as over a connection to
        a host that is gone. Returns whether a time limit came meanwhile: Celery raises it once, and
        what follows is in haste, too.
        """
        results, is_late = self._results, False
        try:
            if results.waiting and not in_haste:
                results.record()
        except Exception as error:  # noqa: BLE001  (the batch's own error is raised)
            is_late = self._may_be_killed(error)
        finally:
            # Not as after a batch that went well: an email without a result may have left.
            left, unrecorded = results.take(), self._runtime.unrecorded
            unrecorded.keep(self._token, left, gives_back=False)
        if in_haste and left:
            unrecorded.wait(HASTE)
        return is_late

    def _give_back(self, *, in_haste: bool) -> None:
        """Give back what waits for a window; else the rescue would charge each of these emails."""
        unrecorded = self._runtime.unrecorded
        if in_haste and unrecorded.give_back(self._token):
            unrecorded.wait(HASTE)
            return
        write = partial(abandon, self._runtime.database, self._token)
        ends = (lambda _: True) if in_haste else is_refusal  # no thread can start: one try
        try:
            until_written(write, meanwhile=self._heartbeat.progress, ends=ends)
        except Exception as error:  # noqa: BLE001  (the batch's own error is raised)
            if not is_refusal(error):
                unrecorded.give_back(self._token)
