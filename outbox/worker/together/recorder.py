"""Group commit: what the tasks of one process have to record at one time goes into one statement.

The first task that comes leads. It writes what it has, while the others queue. The next one that
leads takes all of these. So a lone task writes at once, nobody waits for a timer, and the more
tasks there are, the fewer statements an email costs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from ...domain.delivery.status import Status
from ...store.connection.error_codes import describe
from ...store.harmless_log import harmless_log
from ...store.records import Advanced, WindowChange

MOST_EMAILS = 200
"""The most emails in one statement with those of other tasks: it stays short."""

PATIENCE = 1.0
"""Seconds after which a leader counts as hung, as its connection may be. Then another one leads."""

LONGEST = 30
"""After so many times `PATIENCE`, a task whose change was taken along writes it itself. It does no
harm if both arrive."""


class Recorder:
    """Makes the changes of this process's tasks together; each task gets the outcome of its own."""

    def __init__(self, write: Callable[[Sequence[WindowChange]], Sequence[Advanced]]) -> None:
        """`write` makes some changes, all or none, and returns what was done for each."""
        self._write = write
        self.after_fork()

    def after_fork(self) -> None:
        """Have nobody who leads or queues: the parent's tasks stayed there."""
        self._lock = threading.Lock()
        self._queue = deque[_Call]()
        self._leader: _Call | None = None

    def write(self, change: WindowChange) -> Advanced:
        """Make a change, together with others where there are some; return what was done.

        If that fails for all together, or their leader is ended, each change is made alone. So an
        error is always one of this change's own.
        """
        if any(entry.outcome.status is Status.CLAIMED for entry in change.results):
            # Alone: if its first copy came late, it could close the email's next window.
            return self._alone(change)
        call = _Call(change)
        try:
            if self._leads(call):
                self._lead(call)
        finally:
            self._leave(call)
        return call.done or self._alone(change)

    def _alone(self, change: WindowChange) -> Advanced:
        [done] = self._write([change])
        return done

    def _leads(self, call: _Call) -> bool:
        """Return whether this call leads now; wait until it does, or until its group is done."""
        with self._lock:
            if self._leader is None:
                self._leader = call
                return True
            leader = self._leader
            self._queue.append(call)
        for _ in range(LONGEST):
            if call.turn.acquire(timeout=PATIENCE):
                break
            with self._lock:
                if call in self._queue and self._leader is leader:
                    self._queue.remove(call)
                    self._leader = call
                leader = self._leader
            if leader is call:
                break
        return self._leader is call

    def _lead(self, call: _Call) -> None:
        """Make this change and those that queue; wake those whose changes were taken along."""
        group = [call]
        try:
            self._take_along(group)
            self._make(group)
        finally:
            for one in group[1:]:
                one.turn.release()

    def _take_along(self, group: list[_Call]) -> None:
        """Take those that queue, in their order, as far as one statement can have them."""
        emails = group[0].change.emails
        with self._lock:
            while self._queue:
                more = self._queue[0].change.emails
                if len(emails) + len(more) > MOST_EMAILS or emails & more:
                    return
                emails |= more
                group.append(self._queue.popleft())

    def _make(self, group: Sequence[_Call]) -> None:
        if len(group) == 1:
            group[0].done = self._alone(group[0].change)
            return
        try:
            found = self._write([one.change for one in group])
        except Exception as error:  # noqa: BLE001  (each repeats its own change alone)
            text = "outbox: %d windows are recorded one by one, as they failed together (%s)"
            harmless_log.info(text, len(group), describe(error))
            return
        for one, done in zip(group, found, strict=True):
            one.done = done

    def _leave(self, call: _Call) -> None:
        """Queue no more. Whoever leads has the next one lead."""
        with self._lock:
            if call in self._queue:
                self._queue.remove(call)
            if self._leader is call:
                self._leader = self._queue.popleft() if self._queue else None
                if self._leader is not None:
                    self._leader.turn.release()


class _Call:
    """One task's change, until it is made."""

    def __init__(self, change: WindowChange) -> None:
        self.change = change
        self.done: Advanced | None = None
        self.turn = threading.Lock()  # opened when the call leads, or its group is done
        self.turn.acquire()
