"""A claim's lease, renewed while its batch is at work, and the fence it puts before the wire."""

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
    """There is nobody to be relieved."""


def _always() -> bool:
    """Nobody else waits."""
    return True


class Heartbeat:
    """Renews a lease at a third of its term, and knows until when it surely holds.

    The deadline is this host's steady clock, taken *before* the statement that took or renewed
    the lease was sent: the database's own deadline is later, whatever the network did.
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
        self._deadline = began + term
        self._progress = began
        self.relieve: Callable[[], object] = _nothing  # called with each renewal
        self.ask: Callable[[], bool] = _always  # whether a silent server is to be waited for
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox-lease", daemon=True)

    def holds(self) -> bool:
        """Return whether the lease surely holds: asked before content and before each final dot."""
        return self._clock() < self._deadline

    def progress(self) -> None:
        """Note that the batch moves. One that shows no progress for `patience` is not renewed."""
        self._progress = self._clock()

    def goes_on(self) -> bool:
        """Return whether the batch waits on for a server that says nothing."""
        return self.ask()

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopped.set()
        # Else a connection, which reports to this, would keep the batch.
        self.relieve, self.ask = _nothing, _always

    def _run(self) -> None:
        while not self._stopped.wait(self._term / 3):
            if self._clock() - self._progress > self._patience:
                return  # a hang must not hide behind renewals: its lease runs out
            if not self._renew():
                return
            self._relieve()

    def _relieve(self) -> None:
        try:
            self.relieve()
        except Exception as error:  # noqa: BLE001  (it is tried again, and the lease comes first)
            _log.warning("outbox: waiting emails were not given back (%s)", describe(error))

    def _renew(self) -> bool:
        sent = self._clock()
        try:
            held = lease.renew(self._database, self._token, lease_seconds=self._term)
        except Exception as error:  # noqa: BLE001  (whatever it is, the batch is still at work)
            # The database is away: keep trying, the fence holds the wire meanwhile.
            _log.warning("outbox: a lease was not renewed (%s)", describe(error))
            return True
        self._deadline = sent + self._term if held else sent
        return held
