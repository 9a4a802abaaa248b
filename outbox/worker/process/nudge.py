"""Wakes a sweep after a commit, or later when a rate allows more; never in the request's thread.

Nothing depends on a wake, because beat guarantees the sweep.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf

from ..broker.publisher import BROKER_ERRORS

_log = logging.getLogger("outbox")

RETRY_FIRST = 1.0
RETRY_LONGEST = 30.0
"""Seconds without a try after a failure: they double each time, so that a broker that is down costs
nothing."""
GAP = 0.02
"""Seconds from one publish to the next. The first wake publishes at once. In a stream of commits a
publish for each would cost more than the enqueue, and one sweep serves them all."""
MOST_GAPS = 8
"""How many gaps long a gap becomes. It doubles each time that the last sweep still waits for a
worker: each look at the queue takes the app's interpreter half a millisecond, and is in vain."""

IDLE_LOOK = 60.0
"""Seconds from one look to the next whether anybody holds the nudge, where nobody wakes it."""


class Nudge:
    """Runs `publish` soon after `wake`, on one thread of each process; many wakes merge into one.

    `publish` returns False if it published nothing, because a sweep waits that no worker has taken.
    `wake` does no I/O and takes no lock that a publish holds, so a request never waits for the
    broker. A failure is logged once and never raised. Of several wakes for later only the earliest
    counts: its sweep knows best when the next one is worth it.
    """

    def __init__(
        self,
        publish: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        gap: float = 0.0,
    ) -> None:
        self._publish = publish
        self._clock = clock
        self._gap = gap
        self._gaps = 1  # how many of them the next gap has; only the thread uses it
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_starting = False
        self._process = 0
        self._failures = 0
        self._silent_until = 0.0
        self._next = 0.0  # no publish before this moment on our clock; only the thread uses it
        self._asked = deque[float]()  # moments on our clock; without a lock, because of forks
        self._due = inf  # the earliest moment asked for; only the thread sets it

    def wake(self, seconds: float = 0.0) -> None:
        """Ask for a sweep in so many seconds; return at once."""
        if self._process != os.getpid() or self._thread is None or not self._thread.is_alive():
            self._start()
        moment = self._clock() + seconds
        # A publish that has not begun yet serves this wake, too. Otherwise the thread would run,
        # and take the interpreter's lock, once for each commit in a stream of commits.
        if self._due > moment:
            self._asked.append(moment)
            self._wanted.set()

    def renew_lock(self) -> None:
        """Make a new lock after a fork: another thread of the parent may have held the old one."""
        self._lock = threading.Lock()

    def _start(self) -> None:
        if (thread := self._new_thread()) is None:
            return
        try:
            # Not under the lock: a greenlet yields here, and the lock may be an unpatched one, on
            # which the next greenlet would block the whole process.
            # At the interpreter's exit no thread can be started, and none is needed.
            with suppress(RuntimeError):
                thread.start()
        finally:
            self._is_starting = False

    def _new_thread(self) -> threading.Thread | None:
        """Return a thread to be started; None where one runs, or another caller starts one."""
        with self._lock:
            if self._process != os.getpid():  # forked: the thread stayed with the parent
                self._process, self._thread, self._is_starting = os.getpid(), None, False
                self._wanted, self._asked, self._due = threading.Event(), deque(), inf
            if self._is_starting or (self._thread is not None and self._thread.is_alive()):
                return None
            self._is_starting = True
            arguments = (weakref.ref(self), self._wanted)
            self._thread = threading.Thread(
                target=_run, args=arguments, name="outbox-nudge", daemon=True
            )
            return self._thread

    def publish_if_due(self) -> float:
        """Publish if it is time; return the seconds until the next look. Only the thread calls it.

        The seconds are infinite where no sweep is asked for.
        """
        self._wanted.clear()
        while self._asked:
            self._due = min(self._due, self._asked.popleft())
        if self._until_due() == 0.0:
            self._due = inf
            if self._clock() >= self._silent_until:
                self._try()
                self._next = self._clock() + self._gap * self._gaps
        return self._until_due()

    def _until_due(self) -> float:
        return max(0.0, max(self._due, self._next) - self._clock())

    def _try(self) -> None:
        try:
            is_taken = self._publish()
        except Exception as error:  # noqa: BLE001  (any broker, any error: beat still sweeps)
            self._failures += 1
            pause = min(RETRY_LONGEST, RETRY_FIRST * 2 ** min(self._failures - 1, 10))
            self._silent_until = self._clock() + pause
            if self._failures == 1:
                _log.warning("outbox: no sweep was asked for%s", _reason(error))
        else:
            self._failures, self._silent_until = 0, 0.0
            self._gaps = 1 if is_taken else min(MOST_GAPS, 2 * self._gaps)


def _reason(error: Exception) -> str:
    """Return what kind of error it is. Its text may hold an address or a password."""
    if not isinstance(error, BROKER_ERRORS):
        return f" ({type(error).__name__})"
    kind = type(error.__cause__ or error).__name__  # Celery's own name for all of them tells less
    return f", the broker is away or refuses it ({kind})"


def _run(found: weakref.ref[Nudge], wanted: threading.Event) -> None:
    """Look whenever somebody wakes it or a moment has come; end when nobody holds the nudge.

    While it waits it does not hold the nudge, which knows its app: tests make an app each, and each
    would stay for ever.
    """
    left = 0.0
    while True:
        wanted.wait(min(left, IDLE_LOOK))
        if (nudge := found()) is None:
            return
        left = nudge.publish_if_due()
        del nudge
