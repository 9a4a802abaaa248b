"""Why a batch ended, and whether another sweep is worth it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class BatchEnd(StrEnum):
    """Why a batch ended."""

    DONE = "done"  # each email had its turn
    PROBED = "probed"  # a server that was halted, or out of this host's reach, opened a session
    STALE = "stale"  # there was no lease to start: the task came twice, late or forged
    SENDING_OFF = "sending is off"  # this app sends nothing, by MAIL_SUPPRESS_SEND or TESTING
    COPY = "copy"  # this outbox is a copy, or a restored backup: nothing may be sent from it
    NO_THREAD = "no thread"  # this process could not renew the lease, so it did not start it
    NO_SERVER = "no server"  # no server of the route has room, or none opens a session
    CUT_OFF = "cut off"  # other hosts reach the route's servers, and this one does not
    RATE_LIMITED = "rate limited"  # a rate lets no email go soon
    YIELDED = "yielded"  # urgent email waits for a process
    RELIEVED = "relieved"  # the emails behind a slow one were given back
    TIME_UP = "time up"  # it took longer than OUTBOX_BATCH_SECONDS
    LEASE_LOST = "lease lost"
    SHUTDOWN = "shutdown"


_IDLE = frozenset(
    {
        BatchEnd.STALE,
        BatchEnd.SENDING_OFF,
        BatchEnd.COPY,
        BatchEnd.NO_THREAD,
        BatchEnd.NO_SERVER,
        BatchEnd.CUT_OFF,
        BatchEnd.RATE_LIMITED,
    }
)


class BatchReport(NamedTuple):
    """The result of one send task."""

    end: BatchEnd
    settled: int = 0  # emails that need nothing more in this batch
    sent: int = 0  # those of them that the server has accepted

    @property
    def is_worth_a_sweep(self) -> bool:
        """Whether a sweep may bring more; without a server it would only claim and give back."""
        return self.settled > 0 or self.end not in _IDLE
