"""Remembers lapsed leases whose rows others have locked: nobody can renew them meanwhile.

A host that vanished in the midst of a rescue may hold such a row for hours. The worker may live,
and needs the time to renew or end its lease once the row is free. It gets that time from a process
whose sweeps saw the row locked twice. Another process does not know of it.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from uuid import UUID

from ..connection.database import Database

LONG = 2.0
"""Seconds between two looks that find the row locked. Another sweep's rescue takes far less."""


def keep(database: Database, lapsed: Collection[UUID]) -> None:
    """Forget all leases but these."""
    for token in set(database.locked_leases.copy()).difference(lapsed):  # threads note others
        database.locked_leases.pop(token, None)


def note(database: Database, token: UUID) -> None:
    """Note that the row is locked now."""
    now = time.monotonic()
    first, _ = database.locked_leases.get(token, (now, now))
    database.locked_leases[token] = first, now


def was_locked(database: Database, token: UUID) -> bool:
    """Return whether this process saw the row locked for long, until it last looked."""
    first, last = database.locked_leases.get(token, (0.0, -1.0))
    return last - first >= LONG


def forget(database: Database, token: UUID) -> None:
    """Forget a lease that this process had locked, once that transaction is committed."""
    database.locked_leases.pop(token, None)
