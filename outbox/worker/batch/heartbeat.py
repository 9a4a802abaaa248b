"""Renews a claim's lease while its batch is at work, and is the fence before each write."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from uuid import UUID

from ...store.connection.database import Database
from ...store.connection.error_codes import describe
from ...store.control import lease
from ..process.steady_clock import steady

_log = logging.getLogger("outbox")


def _nothing() -> None:
    """Relieve nothing: no window is open."""


def _always() -> bool:
    """Wait on: no other email is known to wait."""
    return True


class Heartbeat:
    """Renews a lease after each third of its term, and knows until when the lease surely holds.

    The deadline counts on this host's steady clock, from *before* the statement that took or
    renewed the lease was sent. So the database's own deadline is always later.
    """

    def __init__(
        self,
        database: Database,
        token: UUID,
        *,
        term: float,
        patience: float,
        began: float,
        clock: Callable[[], float] = steady,
    ) -> None:
        self._database = database
        self._token = token
        self._term = term
        self._patience = patience
        self._clock = clock
        self.began = began  # when the batch began, on our clock
        self._deadline = began + term
        self._progress = began
        self.relieve: Callable[[], object] = _nothing  # called with each renewal
        self.ask: Callable[[], bool] = _always  # whether to go on waiting for a silent server
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox-lease", daemon=True)

    def holds(self) -> bool:
        """Return whether the lease surely holds; asked before each content and each final dot."""
        return self._clock() < self._deadline

    def progress(self) -> None:
        """Note that the batch moves. After `patience` seconds without it the lease runs out."""
        self._progress = self._clock()

    def goes_on(self) -> bool:
        """Return whether the batch goes on waiting for a silent server."""
        return self.ask()

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopped.set()
        # Otherwise a connection, which reports to this object, would keep the batch in memory.
        self.relieve, self.ask = _nothing, _always

    def _run(self) -> None:
        while not self._stopped.wait(self._term / 3):
            if self._clock() - self._progress > self._patience:
                return  # renewals must not hide a hang: its lease runs out
            if not self._renew():
                return
            self._relieve()

    def _relieve(self) -> None:
        try:
            self.relieve()
        except Exception as error:  # noqa: BLE001  (tried again at the next renewal)
            _log.warning("outbox: waiting emails were not given back (%s)", describe(error))

    def _renew(self) -> bool:
        sent = self._clock()
        try:
            held = lease.renew(self._database, self._token, lease_seconds=self._term)
        except Exception as error:  # noqa: BLE001  (the batch is still at work)
            # The database is away. Keep trying: past the deadline the fence stops the sending.
            _log.warning("outbox: a lease was not renewed (%s)", describe(error))
            return True
        self._deadline = sent + self._term if held else sent
        return held
