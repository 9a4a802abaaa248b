"""The ends of what may be given: no email at one of them stops a sweep, which is for all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from outbox import Status
from outbox.domain.config.settings import MOST_TRIES
from outbox.worker.sweep import sweep
from tests.integration.store.queries.test_lanes import swept
from tests.integration.store.transitions.lease.test_rescue import change
from tests.support.shop.shop import LEASE, Shop, Shops

pytestmark = pytest.mark.each_database

FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(8999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The first and the last second that an email may have."""


def test_emails_at_the_ends_of_time_are_due_at_once_or_never(shop: Shop) -> None:
    early = shop.enqueue(send_at=FIRST, expires_at=LAST)
    late = shop.enqueue(send_at=LAST - timedelta(seconds=1), expires_at=LAST)
    over = shop.enqueue()
    change(shop, over.id, expires_at=FIRST)
    swept(shop)
    assert [shop.status(email.id) for email in (early, late, over)] == [
        Status.CLAIMED,
        Status.PENDING,
        Status.EXPIRED,
    ]


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_they_are_read_in_every_time_zone_of_a_session(shop: Shop, zone: str) -> None:
    """PostgreSQL tells a moment in the session's zone: there it may be in another year."""
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(
            f"ALTER DATABASE {shop.engine.url.database} SET timezone = '{zone}'"
        )
    shop.engine.dispose()
    early, late = shop.enqueue(send_at=FIRST, expires_at=LAST), shop.enqueue(send_at=LAST)
    swept(shop)
    assert (shop.status(early.id), shop.status(late.id)) == (Status.CLAIMED, Status.PENDING)
    assert shop.email_row(late.id).due_at == LAST
    assert shop.email_row(late.id).due_at.utcoffset() != timedelta(0)


@pytest.mark.matrix
@pytest.mark.parametrize("column", ["attempts", "crashes"])
def test_an_email_that_was_tried_as_often_as_may_be_ends_and_stops_no_other(
    shops: Shops, column: str
) -> None:
    shop = shops.open(OUTBOX_MAX_ATTEMPTS=MOST_TRIES, OUTBOX_MAX_CRASHES=MOST_TRIES)
    email = shop.enqueue()
    change(shop, email.id, **{column: MOST_TRIES - 1})
    shop.sending(email.id)
    shop.enqueue()
    for _ in range(2):
        shop.later(LEASE + 1)
        sweep(shop.runtime, lambda _: None)
    assert shop.status(email.id) is Status.UNKNOWN
    assert getattr(shop.email_row(email.id), column) == MOST_TRIES
