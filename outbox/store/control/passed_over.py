"""Emails whose rows alone fail: this process claims none of them for a while."""

from __future__ import annotations

import time
from collections.abc import Collection

from ..connection.database import Database

RETRY_AFTER = 30.0
"""Seconds until such an email is tried again. One that failed with the database waits as long."""

MOST = 5000
"""The most emails that are passed over: each is a parameter of the statement."""


def passed_over(database: Database) -> frozenset[int]:
    """Return the emails whose rows this process was not able to change lately."""
    now = time.monotonic()
    # Another thread may add to it meanwhile.
    for email_id in [one for one, until in list(database.failing.items()) if until <= now]:
        database.failing.pop(email_id, None)
    return frozenset(database.failing)


def pass_over(database: Database, ids: Collection[int]) -> None:
    """Note that these emails alone failed."""
    room = max(0, MOST - len(database.failing))
    until = time.monotonic() + RETRY_AFTER
    database.failing.update((email_id, until) for email_id in sorted(ids)[:room])
