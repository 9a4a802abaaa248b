"""Renews the leases of all batches of this process: one thread, and one statement for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from ...domain.counted import counted
from ...store.connection.database import Database
from ...store.connection.error_codes import describe
from ...store.control import lease
from ...store.harmless_log import harmless_log
from .heartbeat import Heartbeat

MOST_RENEWALS = 3
"""The most renewals under way at once: one for each third of a term. More would wait in vain."""

STOOD_STILL = 3.0
"""Seconds by which the thread wakes too late where the process itself stood still."""


class Heartbeats:
    """Renews the leases of all batches at work, each third of a lease's term.

    A batch that comes between two renewals has its lease renewed by the next one: after a third of
    the term at the latest. Each renewal has a thread of its own. So the next one is on time
    although a statement hangs, or a batch takes long to be relieved.
    """

    def __init__(
        self,
        database: Callable[[], Database],
        *,
        term: Callable[[], float],
        clock: Callable[[], float],
        pace: Callable[[], threading.Event] = threading.Event,
        tells: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`term` returns a lease's seconds, and `pace` makes what the thread waits on.

        `tells` returns whether the log is to be told of this error now.
        """
        self._database = database
        self._term = term
        self._clock = clock
        self._pace = pace
        self._tells = tells
        self.after_fork()

    def after_fork(self) -> None:
        """Have no batches: those of the parent, and its thread, stayed there."""
        self._lock = threading.Lock()
        self._hearts: dict[Heartbeat, None] = {}  # in the order in which their batches began
        self._blocks = set[object]()  # during which the thread runs, also without a batch
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._renewals = 0  # under way

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have the thread run during the block, so that `add` cannot fail in it.

        Raises RuntimeError if this process can start no thread now.
        """
        block = object()
        with self._lock:
            self._start()
            self._blocks.add(block)
        try:
            yield
        finally:
            with self._lock:
                self._blocks.discard(block)
                self._end_if_idle()

    def add(self, heart: Heartbeat) -> None:
        """Renew this lease from now on."""
        with self._lock:
            self._start()
            self._hearts[heart] = None

    def remove(self, heart: Heartbeat) -> None:
        """Renew this lease no more. The thread ends with the last one."""
        with self._lock:
            self._hearts.pop(heart, None)
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if not (self._hearts or self._blocks):
            self._stopped.set()
            self._thread = None

    def _start(self) -> None:
        if self._thread is not None:
            return
        stopped = self._pace()
        thread = threading.Thread(
            target=self._run, args=(stopped,), name="outbox-leases", daemon=True
        )
        thread.start()
        self._thread, self._stopped = thread, stopped

    def _run(self, stopped: threading.Event) -> None:
        while True:
            since, third = self._clock(), self._term() / 3
            if stopped.wait(third):
                return
            relieves = self._clock() - since <= third + STOOD_STILL
            renew = partial(self._renew_all, relieves=relieves)
            renewal = threading.Thread(target=renew, name="outbox-lease", daemon=True)
            try:
                renewal.start()
            except RuntimeError:  # there can be no more threads, so the next one may be late
                renew()

    def _renew_all(self, *, relieves: bool) -> None:
        """Renew what moves. Without `relieves` no server is blamed for the time without an answer.

        That is so where the process was stopped, or a driver without greenlets kept it waiting: the
        replies may be here, and nobody has read them yet.
        """
        with self._lock:
            hearts = list(self._hearts)
        for heart in hearts:
            if heart.hangs():
                self.remove(heart)  # for good: its lease runs out
        self._renew(self._kept(hearts))
        for heart in self._kept(hearts) if relieves else ():
            _relieve(heart)

    def _kept(self, hearts: Iterable[Heartbeat]) -> list[Heartbeat]:
        with self._lock:
            return [heart for heart in hearts if heart in self._hearts]

    def _renew(self, hearts: Sequence[Heartbeat]) -> None:
        with self._lock:
            if not hearts or self._renewals >= MOST_RENEWALS:
                return
            self._renewals += 1
        sent, tokens = self._clock(), [heart.token for heart in hearts]
        try:
            renewal = lease.renew(self._database(), tokens, lease_seconds=self._term())
        except Exception as error:  # noqa: BLE001  (the batches are still at work)
            # The database is away. Keep trying: past the deadline the fence stops the sending.
            if self._tells(why := describe(error)):
                what = counted(len(tokens), "lease was", "leases were")
                harmless_log.warning("outbox: %s not renewed (%s)", what, why)
        else:
            self._note(hearts, renewal, sent)
        finally:
            with self._lock:
                self._renewals -= 1

    def _note(self, hearts: Iterable[Heartbeat], renewal: lease.Renewal, sent: float) -> None:
        for heart in hearts:
            if heart.token in renewal.renewed:
                heart.renewed(sent)
            elif heart.token in renewal.lost:
                heart.lost(sent)
                self.remove(heart)


def _relieve(heart: Heartbeat) -> None:
    try:
        heart.relieve()
    except Exception as error:  # noqa: BLE001  (tried again at the next renewal)
        harmless_log.warning("outbox: waiting emails were not given back (%s)", describe(error))
