"""Why a batch ended, and whether another sweep is worth its while."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class BatchEnd(StrEnum):
    """Why a batch ended."""

    DONE = "done"  # each email has its turn behind it
    PROBED = "probed"  # a server that was halted gave a session: the probe had no email
    STALE = "stale"  # no lease was there to start: the task came twice, late or forged
    SUPPRESSED = "suppressed"  # this app sends nothing
    NO_SERVER = "no server"  # no server of the route has room, or gives a session
    RATE_LIMITED = "rate limited"  # a rate lets none go soon
    YIELDED = "yielded"  # urgent email waits for a process
    RELIEVED = "relieved"  # what waited behind a slow email was given back
    TIME_UP = "time up"  # it took longer than OUTBOX_BATCH_SECONDS
    LEASE_LOST = "lease lost"
    SHUTDOWN = "shutdown"


_IDLE = frozenset({BatchEnd.STALE, BatchEnd.SUPPRESSED, BatchEnd.NO_SERVER, BatchEnd.RATE_LIMITED})


class BatchReport(NamedTuple):
    """What came of one send task."""

    end: BatchEnd
    settled: int = 0  # emails that need nothing more in this batch

    @property
    def is_worth_a_sweep(self) -> bool:
        """Whether a sweep may bring more; one without a server would claim and give back."""
        return self.settled > 0 or self.end not in _IDLE
