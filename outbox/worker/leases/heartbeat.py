"""A batch's lease while the batch is at work: the fence before each write.

`heartbeats.py` renews it together with the other leases of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self
from uuid import UUID


def _nothing() -> None:
    """Relieve nothing: no window is open."""


def always() -> bool:
    """Wait on: no other email is known to wait."""
    return True


class Renewer(Protocol):
    """Renews leases until they are taken out."""

    def add(self, heart: Heartbeat) -> None:
        """Renew this lease from now on."""

    def remove(self, heart: Heartbeat) -> None:
        """Renew this lease no more."""


class Heartbeat:
    """Knows until when a lease surely holds, and whether its batch still deserves a renewal.

    The deadline counts on this host's steady clock, from *before* the statement that took or
    renewed the lease was sent. So the database's own deadline is always later.
    """

    def __init__(
        self,
        renewer: Renewer,
        token: UUID,
        *,
        term: float,
        patience: float,
        began: float,
        clock: Callable[[], float],
    ) -> None:
        self.token = token
        self.began = began  # when the batch began, on our clock
        self.relieve: Callable[[], object] = _nothing  # called with each renewal
        self.ask: Callable[[], bool] = always  # whether to go on waiting for a silent server
        self.ask_behind: Callable[[], bool] = always  # the same, where a content has left
        self._renewer = renewer
        self._term = term
        self._patience = patience
        self._clock = clock
        self._deadline = began + term
        self._progress = began
        self._is_lost = False

    def holds(self) -> bool:
        """Return whether the lease surely holds; asked before each content and each final dot."""
        return self._clock() < self._deadline

    def is_told(self) -> bool:
        """Return whether the database has renewed the lease within a term, or told that it is gone.

        Either shows that it answers.
        """
        return self._is_lost or self.holds()

    def progress(self) -> None:
        """Note that the batch moves. After `patience` seconds without it the lease runs out."""
        self._progress = self._clock()

    def goes_on(self) -> bool:
        """Return whether the batch goes on waiting for a silent server."""
        return self.ask()

    def stays(self) -> bool:
        """Return whether the batch itself waits on for the reply to a content."""
        return self.ask_behind()

    def hangs(self) -> bool:
        """Return whether the batch did not move for its patience: renewals must not hide that."""
        return self._clock() - self._progress > self._patience

    def renewed(self, sent: float) -> None:
        """Note a renewal that was sent at this moment of our clock.

        One that took longer than the next brings the deadline no nearer, and brings no lost lease
        back.
        """
        if not self._is_lost:
            self._deadline = max(self._deadline, sent + self._term)

    def lost(self, sent: float) -> None:
        """Note that the lease was found to be gone, by a statement that was sent at this moment."""
        self._is_lost, self._deadline = True, min(self._deadline, sent)

    def __enter__(self) -> Self:
        self._renewer.add(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self._renewer.remove(self)
        # Otherwise a connection, which reports to this object, would keep the batch in memory.
        self.relieve, self.ask, self.ask_behind = _nothing, always, always
