"""The reply to a content that comes when its batch has ended: a thread waits for it.

A server may say nothing for ten minutes after a content, and that email is in doubt meanwhile. If
other emails need the process, it goes on with them. The email stays as it is: its window is open,
and its lease is kept from the rescue. But it takes no slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

from ....store.connection.error_codes import describe
from ....store.control import lease
from ....store.control.circuit_breaker import leave_probe
from ....store.harmless_log import harmless_log
from ....store.transitions import release
from ....store.transitions.window import abandon
from ...leases.heartbeat import Heartbeat
from ...process.retry_writes import until_written
from ...process.runtime import Runtime
from ..batch_results import Results
from ..send_window import Window

Step = Callable[[], bool]
"""Gives something up for others; returns whether it did."""


class LateReply:
    """Waits for the reply that a window has left, and records what it says of the email."""

    def __init__(self, runtime: Runtime, token: UUID, window: Window, results: Results) -> None:
        """Nobody else uses the `window` and the `results` any more."""
        self._runtime = runtime
        self._token = token
        self._window = window
        self._results = results
        settings = runtime.settings
        self._heart = Heartbeat(
            runtime.heartbeats,
            token,
            term=settings.lease,
            patience=settings.dot_timeout + settings.command_timeout,
            began=runtime.clock(),
            clock=runtime.clock,
        )
        results.carried_by(progress=self._heart.progress, is_told=self._heart.is_told)
        self._lock = threading.Lock()  # each renewal has a thread of its own
        self._kept: Sequence[Step] = (self._give_up_slot, self._leave_probe, self._give_back)

    def leave(self) -> None:
        """Give up what others need, and have a thread wait; wait here if there can be none."""
        runtime = self._runtime
        runtime.heartbeats.add(self._heart)
        self._let_go()
        self._heart.relieve = self._let_go
        if not runtime.late_replies.start(self._take_alone):
            self._take()

    def _let_go(self) -> None:
        """Take the steps that are left. Where a row is locked, the next renewal tries again."""
        if not self._kept or not self._lock.acquire(blocking=False):
            return
        try:
            self._kept = [step for step in self._kept if not _is_done(step)]
        finally:
            self._lock.release()

    def _give_up_slot(self) -> bool:
        return lease.await_reply(self._runtime.database, self._token)

    def _leave_probe(self) -> bool:
        return leave_probe(self._runtime.database, self._token)

    def _give_back(self) -> bool:
        """Give back the emails whose rows the relief found locked."""
        database = self._runtime.database
        give_back = partial(release.give_back_claimed, database=database, token=self._token)
        return not database.run(give_back)

    def _take_alone(self) -> None:
        try:
            self._take()
        except Exception as error:  # noqa: BLE001  (no task is there to fail)
            harmless_log.error("outbox: a late reply was not recorded (%s)", describe(error))

    def _take(self) -> None:
        try:
            watch = self._window.conclude()
        finally:
            try:
                self._record()
            finally:
                self._runtime.heartbeats.remove(self._heart)
        watch.settle()

    def _record(self) -> None:
        """Record the result, and end the batch: no other email carries its token."""
        runtime, results = self._runtime, self._results
        try:
            if results.waiting:
                results.record()
        finally:
            # What is left has a row that is locked, or that fails.
            runtime.unrecorded.keep(self._token, results.take(), gives_back=False)
            until_written(partial(abandon, runtime.database, self._token))


def _is_done(step: Step) -> bool:
    try:
        return step()
    except Exception as error:  # noqa: BLE001  (the reply is waited for all the same)
        what = "outbox: a late reply keeps what others need (%s)"
        harmless_log.warning(what, describe(error))
        return False
