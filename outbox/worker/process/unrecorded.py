"""Results of batches that are over, whose rows a person's transaction holds.

A worker waits for nobody's transaction, and a result that is known must not become a doubt: so it
is kept here, and written as soon as that transaction has ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from uuid import UUID

from ...store.connection.database import Database
from ...store.connection.error_codes import describe
from ...store.records import EmailResult
from ...store.transitions.record import without_text
from ...store.transitions.window import finish
from .retry_writes import GRACE

_log = logging.getLogger("outbox")

FIRST_WAIT = 0.05
LONGEST_WAIT = 0.5
"""Seconds between two tries. Each shows the rescue that the results are known; it is patient for a
whole lease."""


class Unrecorded:
    """Keeps them in this process, beside whatever batch it sends next."""

    def __init__(self, database: Callable[[], Database], worker: Callable[[], str]) -> None:
        self._database = database
        self._worker = worker
        self._threads: list[threading.Thread] = []

    def keep(self, token: UUID, results: Sequence[EmailResult]) -> None:
        """Write these results of a finished batch, and give back the rest of it, when they can."""
        if not results:
            return
        _log.info("outbox: %d results wait for a transaction that holds their rows", len(results))
        work = threading.Thread(
            target=self._write, args=(token, list(results)), name="outbox-unrecorded", daemon=True
        )
        self._threads = [thread for thread in self._threads if thread.is_alive()] + [work]
        work.start()

    def wait(self, seconds: float = GRACE) -> bool:
        """Give what is kept this long before the process ends; what is not written is in doubt."""
        deadline = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _write(self, token: UUID, results: list[EmailResult]) -> None:
        pause, wait = threading.Event(), FIRST_WAIT
        while results:
            pause.wait(wait)
            wait = min(LONGEST_WAIT, wait * 2)
            try:
                held = finish(self._database(), token, results, worker=self._worker()).held
            except Exception as error:  # noqa: BLE001  (whatever it is, the results are known)
                _log.warning("outbox: results are not recorded yet (%s)", describe(error))
                results = [without_text(entry) for entry in results]
            else:
                results = [entry for entry in results if entry.email_id in held]
