"""Ends batches later of which another transaction holds the lease and some of the emails.

A host that vanished in the midst of a rescue holds both. A worker does not wait for it. But it
knows what it has not sent, and gives that back uncharged as soon as the rows are free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from uuid import UUID

from ...store.connection.database import Database
from ...store.connection.error_codes import describe, is_refusal, may_be_of_a_row
from ...store.harmless_log import harmless_log
from ...store.transitions.window import finish

EVERY = 0.5
"""Seconds between two tries. The rescue waits a whole lease after it has seen the row free."""

FAILING_EVERY = 5.0
"""The same where each row that was tried answers with an error of its own."""


class Unended:
    """The batches of this process that wait for their end. It may send others meanwhile."""

    def __init__(self, database: Callable[[], Database], worker: Callable[[], str]) -> None:
        self._database = database
        self._worker = worker
        self._threads = set[threading.Thread]()

    def keep(self, token: UUID) -> None:
        """Give back the rest of a batch without results, and end its lease, once it can be done.

        A thread does it. Where there can be no more threads, the lease runs out, and is rescued.
        """
        harmless_log.info("outbox: a batch is ended later: another transaction holds its lease")
        work = threading.Thread(target=self._end, args=(token,), name="outbox-unended", daemon=True)
        try:
            work.start()
        except RuntimeError:
            harmless_log.warning(
                "outbox: this process can start no thread: the batch's lease runs out"
            )
            return
        # Two tasks may be here at a time: neither may forget the other's thread.
        self._threads.add(work)
        self._threads.difference_update([one for one in self._threads.copy() if not one.is_alive()])

    def wait(self, seconds: float) -> bool:
        """Wait so long for all ends before the process ends; return whether all are done.

        A lease that is not ended by then runs out, and its worker is charged a crash.
        """
        deadline = monotonic() + seconds
        for thread in self._threads.copy():
            thread.join(max(0.0, deadline - monotonic()))
        return not any(thread.is_alive() for thread in self._threads.copy())

    def _end(self, token: UUID) -> None:
        pause, wait, is_left = threading.Event(), EVERY, True
        while is_left:
            pause.wait(wait)
            try:
                is_left = finish(self._database(), token, [], worker=self._worker()).left
                wait = EVERY
            except Exception as error:  # noqa: BLE001  (the emails are known to be unsent: try again)
                harmless_log.warning("outbox: a batch is not ended yet (%s)", describe(error))
                if is_refusal(error):
                    return  # now and always: the rescue isolates the email that causes it
                wait = FAILING_EVERY if may_be_of_a_row(error) else EVERY
