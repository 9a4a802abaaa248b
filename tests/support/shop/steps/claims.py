"""Claims due emails as a sweep does, for a test that wants one batch."""

from __future__ import annotations

from outbox import Priority
from outbox.domain.scheduling.claim_plan import ClaimRequest
from outbox.store.connection.database import Database
from outbox.store.records import Claim
from outbox.store.transitions.claim import claim


def claim_batch(
    database: Database, priority: Priority, limit: int, *, lease_seconds: float, lane: str = ""
) -> list[Claim]:
    """Claim up to `limit` due emails of one lane, as one batch; return the claims made.

    One email whose workers keep dying is claimed beside the batch, alone.
    """
    request = ClaimRequest(lane=lane, priority=priority, batches=1, size=limit)
    return claim(database, [request], lease_seconds=lease_seconds)
