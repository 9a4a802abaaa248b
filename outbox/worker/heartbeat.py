"""A claim's lease, renewed while its batch is at work, and the fence it puts before the wire."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from ..store import lease
from ..store.database import Database

_log = logging.getLogger("outbox")


class Heartbeat:
    """Renews a lease at a third of its term, and knows until when it surely holds.

    The deadline is this host's monotonic clock, taken *before* the statement that took or renewed
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._token = token
        self._term = term
        self._patience = patience
        self._clock = clock
        self._deadline = began + term
        self._progress = began
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox-lease", daemon=True)

    def holds(self) -> bool:
        """Return whether the lease surely holds: asked before content and before each final dot."""
        return self._clock() < self._deadline

    def progress(self) -> None:
        """Note that a mail is done. A batch that shows none for `patience` is not renewed."""
        self._progress = self._clock()

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._term / 3):
            if self._clock() - self._progress > self._patience:
                return  # a hang must not hide behind renewals: its lease runs out
            if not self._renew():
                return

    def _renew(self) -> bool:
        sent = self._clock()
        try:
            held = lease.renew(self._database, self._token, lease=self._term)
        except SQLAlchemyError as error:
            # The database is away: keep trying, the fence holds the wire meanwhile.
            _log.warning("outbox: a lease was not renewed (%s)", type(error).__name__)
            return True
        self._deadline = sent + self._term if held else sent
        return held
