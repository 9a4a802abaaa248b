"""Ends batches later of which another transaction holds the lease and some of the emails.

A host that vanished in the midst of a rescue holds both. A worker does not wait for it. But it
knows what it has not sent, and gives that back uncharged as soon as the rows are free.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from uuid import UUID

from ...store.connection.database import Database
from ...store.connection.error_codes import describe
from ...store.transitions.window import finish

_log = logging.getLogger("outbox")

EVERY = 0.5
"""Seconds between two tries. The rescue waits a whole lease after it has seen the row free."""


class Unended:
    """The batches of this process that wait for their end. It may send others meanwhile."""

    def __init__(self, database: Callable[[], Database], worker: Callable[[], str]) -> None:
        self._database = database
        self._worker = worker

    def keep(self, token: UUID) -> None:
        """Give back the rest of a batch without results, and end its lease, once it can be done.

        A thread does it. Where there can be no more threads, the lease runs out, and is rescued.
        """
        _log.info("outbox: a batch is ended later: another transaction holds its lease")
        work = threading.Thread(target=self._end, args=(token,), name="outbox-unended", daemon=True)
        try:
            work.start()
        except RuntimeError:
            _log.warning("outbox: this process can start no thread: the batch's lease runs out")

    def _end(self, token: UUID) -> None:
        pause, is_left = threading.Event(), True
        while is_left:
            pause.wait(EVERY)
            try:
                is_left = finish(self._database(), token, [], worker=self._worker()).left
            except Exception as error:  # noqa: BLE001  (the emails are known to be unsent: try again)
                _log.warning("outbox: a batch is not ended yet (%s)", describe(error))
