"""Remembers overdue leases whose rows others have locked: nobody can renew them meanwhile.

A host that vanished in the midst of a rescue may hold such a row for hours. The worker may live,
and needs the time to renew or end its lease once the row is free.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from uuid import UUID

from ..connection.database import Database

LONG = 2.0
"""Seconds between two looks that find the row locked. Another sweep's rescue takes far less."""


def keep(database: Database, overdue: Collection[UUID]) -> None:
    """Forget all leases but these."""
    for token in database.locked_leases.keys() - set(overdue):
        database.locked_leases.pop(token, None)


def note(database: Database, token: UUID) -> None:
    """Note that the row is locked now."""
    now = time.monotonic()
    first, _ = database.locked_leases.get(token, (now, now))
    database.locked_leases[token] = first, now


def was_locked(database: Database, token: UUID) -> bool:
    """Return whether this process saw the row locked for long, until now; forget it."""
    first, last = database.locked_leases.pop(token, (0.0, -1.0))
    return last - first >= LONG
