"""Gives back the emails that wait behind a slow one; the heartbeat does it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded

from ....store.connection.error_codes import describe, may_be_of_a_row
from ....store.harmless_log import harmless_log
from ....store.records import ClaimedEmail, EmailResult
from ....store.transitions import release
from ....store.transitions.window import advance
from ...capacity.claimable import are_left
from ...process import shutdown
from ...process.one_by_one import write_each
from ...process.retry_writes import HASTE
from ...process.runtime import Runtime
from ..batch_results import Results
from ..send_window import Window
from ..server_choice import ServerChoice


class Relief:
    """Watches one open window, from the heartbeat's thread and during the wait for a reply."""

    def __init__(
        self,
        runtime: Runtime,
        token: UUID,
        window: Window,
        choice: ServerChoice,
        results: Results,
        *,
        holds: Callable[[], bool],
    ) -> None:
        """`holds` returns whether the lease holds."""
        self._holds = holds
        self._runtime = runtime
        self._token = token
        self._window = window
        self._choice = choice
        self._results = results
        self._lock = threading.Lock()  # both threads may give back at the same time
        self._is_left = False  # something is left to be given back
        self._is_locked = False  # so are emails that wait for a window: others have locked them
        self._unwritten: Sequence[EmailResult] = ()  # of emails that are not given back yet

    def give_back(self) -> None:
        """If an email is slow, give back all emails of the batch that were not tried yet.

        What fails is tried again at the next call. So is an email whose row a person holds.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            if (relieved := self._window.relieve()) is not None:
                slow, self._unwritten = relieved
                self._is_left = True
                self._choice.watch.note_slow(slow)
            if self._is_left or self._is_locked:
                self._write()
        finally:
            self._lock.release()

    def _write(self) -> None:
        database, token = self._runtime.database, self._token
        self._unwritten = self._record(list(self._unwritten))
        give_back = partial(release.give_back_claimed, database=database, token=token)
        self._is_locked = database.run(give_back)
        self._is_left = bool(self._unwritten)

    def _record(self, left: list[EmailResult]) -> list[EmailResult]:
        """Record these results; return those that are not written."""
        database, token, worker = self._runtime.database, self._token, self._runtime.worker
        write = partial(advance, database, token, following=(), worker=worker)
        if not left:
            return left
        try:
            locked = write(left).locked
        except Exception as error:
            if not may_be_of_a_row(error):
                raise
            write_each(left, write, {})
            return left
        return [entry for entry in left if entry.email_id in locked]

    def take(self) -> Sequence[EmailResult]:
        """Return the results of emails that are known to be unsent and not given back yet.

        From then on the caller is to have them written.
        """
        has_lock = self._lock.acquire(timeout=HASTE)  # the other thread may wait for the database
        taken, self._unwritten = self._unwritten, ()
        self._is_left = self._is_locked = False
        if has_lock:
            self._lock.release()
        return taken

    def goes_on(self) -> bool:
        """Return whether to go on waiting for a silent server.

        It is False where other emails wait, no process is free, and this email has had its time. So
        it is where the lease is lost: the email may not leave, and a host that slept tells nothing
        of the server.
        """
        return self._holds() and self._waits(self._gives_up)

    def stays(self) -> bool:
        """Return whether this process itself waits on for the reply to a content.

        It is False where other emails need the process, and this one has had its time. Where the
        lease is lost, no more can be written of the batch, and the wait stays here.
        """
        return not self._holds() or self._waits(lambda _: self._is_needed())

    def _waits(self, ends: Callable[[ClaimedEmail], bool]) -> bool:
        """Give back what waits behind a slow email; return whether to go on waiting for it.

        `ends` returns whether not to, and is asked once the others are given back.
        """
        slow = self._window.todo.slow
        if slow is None:
            return True
        try:
            if self._results.waiting:  # else the emails sent before stay in doubt during the wait
                self._results.record_once()
            was_relieved = self._window.todo.is_relieved
            self.give_back()
            return not (was_relieved and ends(slow))
        except SoftTimeLimitExceeded:  # the task's: Celery raises it once
            raise
        except Exception as error:  # noqa: BLE001  (the reply may come; the next look is soon)
            harmless_log.warning("outbox: a look for waiting emails failed (%s)", describe(error))
        return True

    def _gives_up(self, slow: ClaimedEmail) -> bool:
        return self._choice.watch.gives_up(slow, self._window.todo.seconds)

    def _is_needed(self) -> bool:
        """Return whether other emails could go, and no process is free to take them up.

        So it is where they wait for the next probe: this one may have lost its connection.
        """
        if self._is_left or shutdown.requested():
            return False
        if self._choice.watch.keeps_others():
            return True
        return are_left(self._runtime, self._choice.mine)
