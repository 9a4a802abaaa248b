"""The statuses of emails, as the pages group them."""

from __future__ import annotations

from outbox import Status

UNFINISHED = frozenset({Status.PENDING, Status.CLAIMED, Status.SENDING})
