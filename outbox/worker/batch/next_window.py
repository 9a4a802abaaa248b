"""Prepares a batch's next window: a server with a session, the emails, and their permits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

from celery.exceptions import SoftTimeLimitExceeded

from ...domain.delivery.breaker_timing import SESSION_SHARED
from ...store.connection.error_codes import describe
from ...store.control.rate_limits import seconds_until_open
from ...store.harmless_log import harmless_log
from ...store.records import ClaimedEmail
from ..capacity.claimable import are_left
from ..leases.heartbeat import Heartbeat
from ..process.retry_writes import until_written
from ..process.runtime import Runtime
from .batch_end import BatchEnd
from .server_choice import ServerChoice
from .throttle import Throttle


class NextWindow:
    """Chooses the next emails and their server, before their window is open.

    No email is charged here for a server that is away or has no permits.
    """

    def __init__(
        self, runtime: Runtime, choice: ServerChoice, throttle: Throttle, heartbeat: Heartbeat
    ) -> None:
        self._runtime = runtime
        self._choice = choice
        self._throttle = throttle
        self._heartbeat = heartbeat
        self._before_session: Callable[[], object] = _nothing
        self.max_emails = runtime.settings.window

    def cut(
        self, left: deque[ClaimedEmail], *, before_wait: Callable[[], object]
    ) -> list[ClaimedEmail] | BatchEnd:
        """Take the next emails off `left`, with their permits; or return why none can go.

        They go over the first server whose rate allows it, or over the one that does so soonest.
        `before_wait` is called before a wait for permits, and before one for a new session.
        """
        self._before_session = before_wait
        try:
            return self._cut(left, before_wait)
        finally:  # it is the caller's, which holds this object: only the collector would free both
            self._before_session = _nothing

    def _cut(
        self, left: deque[ClaimedEmail], before_wait: Callable[[], object]
    ) -> list[ClaimedEmail] | BatchEnd:
        if not self.open_session():
            return BatchEnd.NO_SERVER
        self._arrange(left)
        window = self._at_once(left)
        if window is None:
            window = self._first_of(left)
            buckets = self._choice.buckets
            if not self._throttle.permit(window, beside=buckets, before_wait=before_wait):
                return BatchEnd.RATE_LIMITED
        for _ in window:
            left.popleft()
        return window or BatchEnd.NO_SERVER

    def open_session(self, *, anew: bool = False) -> bool:
        """Open a session with the first server that has room; return False where none opens."""
        while self._choice.take_first():
            if self._is_connected(anew=anew):
                return True
        return False

    def opens_again(self, *, before: Callable[[], object]) -> bool:
        """Try a server again that this process has left; return whether a session has opened.

        `before` is called first, if there is such a server now. No email may wait for it meanwhile:
        it may take as long as the connect time-out.
        """
        with self._choice.unreached() as is_taken:
            if not is_taken:
                return False
            before()
            return self._is_connected(anew=True)

    def _at_once(self, left: Iterable[ClaimedEmail]) -> list[ClaimedEmail] | None:
        """Return a window that a server's rate allows at once; [] where no server is left.

        It is None where there is no choice between rates, or every rate needs a wait.
        """
        rates = self._choice.rates
        for _ in range(self._choice.servers_left if rates else 0):
            waits = until_written(partial(seconds_until_open, self._runtime.database, rates))
            if not self._choice.take_soonest(waits):
                return []
            if not self._is_connected():
                continue
            window = self._first_of(left)
            if self._throttle.permit(window, beside=self._choice.buckets, patience=0.0):
                return window  # else other batches took the permits first, or the row is locked
        return None

    def _is_connected(self, *, anew: bool = False) -> bool:
        """Open a session with the chosen server; where that fails, leave the server for good."""
        runtime, watch = self._runtime, self._choice.watch
        if not self._choice.connection.is_open:  # a server may be silent for minutes
            self._before_session()
        began = runtime.clock()
        self._heartbeat.ask = lambda: self._awaits_session(runtime.clock() - began)
        fault = self._choice.connection.connect(anew=anew)
        self._heartbeat.progress()
        if fault is None:
            runtime.reach.opened(self._choice.server.name)
            return True
        watch.session_failed(fault)
        self._choice.drop()
        return False

    def _awaits_session(self, seconds: float) -> bool:
        """Return whether to wait on for a session, `seconds` after this process began to open it.

        From `SESSION_SHARED` on it does so only while no other email needs this process.
        """
        if seconds >= self._choice.watch.session_seconds:
            return False
        try:
            return seconds < SESSION_SHARED or not are_left(self._runtime, self._choice.mine)
        except SoftTimeLimitExceeded:  # the task's: Celery raises it once
            raise
        except Exception as error:  # noqa: BLE001  (the greeting may come; the next look is soon)
            harmless_log.warning("outbox: a look for waiting emails failed (%s)", describe(error))
        return True

    def _arrange(self, left: deque[ClaimedEmail]) -> None:
        """Put the email first that differs most from the suspects, if there are any.

        Emails like one that got no reply go last.
        """
        watch = self._choice.watch
        if not watch.is_choosy:
            return
        emails = [left[place] for place in watch.order([email.traits for email in left])]
        emails.insert(0, emails.pop(watch.pick([email.traits for email in emails])))
        left.clear()
        left.extend(emails)

    def _first_of(self, left: Iterable[ClaimedEmail]) -> list[ClaimedEmail]:
        """Return a window, bounded in emails and bytes, and in recipients where there is a rate."""
        window: list[ClaimedEmail] = []
        rates = self._choice.buckets.values()
        most = min([self._throttle.window_limit, *(rate.chunk for rate in rates)])
        size = recipients = 0
        for email in islice(left, self.max_emails):
            size += email.size
            recipients += len(email.envelope.recipients)
            if window and (size > self._runtime.settings.window_bytes or recipients > most):
                break
            window.append(email)
        return window


def _nothing() -> None:
    """Do nothing: no wait is announced."""
