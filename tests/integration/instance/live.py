"""A live outbox of the kind that backups are made of: emails are due, claimed, and being sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from outbox import Priority
from outbox.worker.drain import drain
from tests.support.shop.shop import Shop


def fill(shop: Shop) -> dict[str, int]:
    """Send one email; leave one `sending`, one `claimed`, one due and one scheduled."""
    found = {"sent": shop.enqueue().id}
    assert drain(shop.runtime) == 1
    found["sending"] = shop.enqueue(tag="orders").id
    shop.sending(found["sending"])
    found["claimed"] = shop.enqueue(tag="orders").id
    shop.claim()
    found["due"] = shop.enqueue(tag="news", priority=Priority.BULK).id
    later = datetime.now(UTC) + timedelta(days=1)
    found["scheduled"] = shop.enqueue(tag="news", send_at=later).id
    return found
