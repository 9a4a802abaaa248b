"""Ends batches later of which another transaction holds the lease and some of the emails.

A host that vanished in the midst of a rescue holds both. A worker does not wait for it. But it
knows what it has not sent, and gives that back uncharged as soon as the rows are free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from uuid import UUID

from ...store.connection.database import Database
from ...store.connection.error_codes import describe, is_refusal, may_be_of_a_row
from ...store.harmless_log import harmless_log
from ...store.transitions.window import finish
from .kept_threads import KeptThreads

EVERY = 0.5
"""Seconds between two tries. The rescue waits a whole lease after it has seen the row free."""

FAILING_EVERY = 5.0
"""The same where each row that was tried answers with an error of its own."""


class Unended:
    """The batches of this process that wait for their end. It may send others meanwhile."""

    def __init__(self, database: Callable[[], Database], worker: Callable[[], str]) -> None:
        self._database = database
        self._worker = worker
        self._threads = KeptThreads("outbox-unended")

    def keep(self, token: UUID) -> None:
        """Give back the rest of a batch without results, and end its lease, once it can be done.

        A thread does it. Where there can be no more threads, the lease runs out, and is rescued.
        """
        harmless_log.info("outbox: a batch is ended later: another transaction holds its lease")
        if not self._threads.start(partial(self._end, token)):
            harmless_log.warning(
                "outbox: this process can start no thread: the batch's lease runs out"
            )

    def wait(self, seconds: float) -> bool:
        """Wait so long for all ends before the process ends; return whether all are done.

        A lease that is not ended by then runs out, and its worker is charged a crash.
        """
        return self._threads.wait(seconds)

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
