"""An email that was with lost workers again is named, before and after the rescue judges it."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from outbox import Status
from outbox.flask_ext.management.checks.crashing import crashing_findings
from outbox.store.queries.crashing import TOLD, crashing
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import LEASE, Shop, Shops

pytestmark = pytest.mark.each_database


def lose_before(shop: Shop, email_id: int, *, workers: int) -> None:
    """Have the email count so many lost workers."""
    email = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(update(email).where(email.c.id == email_id).values(crashes=workers))


def told(shop: Shop) -> list[tuple[int, Status, int]]:
    """Return what is told: the email, its status, and how many workers were lost with it."""
    settings = shop.runtime.settings
    found = shop.database.read(
        lambda connection: crashing(
            connection,
            shop.database,
            lease_seconds=settings.lease,
            max_crashes=settings.max_crashes,
        )
    )
    return [(one.id, one.status, one.workers) for one in found]


def lost(shop: Shop, *sending: int) -> None:
    """Have a worker take what is due, open a window with these, and be lost."""
    for made in shop.claim():
        shop.start(made.token)
        if sending:
            shop.open(made.token, *sending)


def test_an_email_is_named_from_its_second_lost_worker_on_until_it_has_ended(shop: Shop) -> None:
    email = shop.enqueue()
    lost(shop)
    shop.later(LEASE)
    assert told(shop) == [], "any email is with a lost worker once"
    shop.rescue()
    assert told(shop) == []
    lost(shop)
    assert told(shop) == [], "its worker may live"
    shop.later(LEASE * 0.7)
    assert told(shop) == [(email.id, Status.CLAIMED, 2)]
    assert "flask outbox cancel --id" in crashing_findings(shop.runtime)[0].text
    assert parsed(runner(shop)("health", "--json"))["crashing"] == [email.id]
    shop.rescue()
    assert told(shop) == [(email.id, Status.PENDING, 2)]
    with shop.session() as session:
        assert shop.outbox.cancel(id=email.id, session=session) == 1
        session.commit()
    assert told(shop) == []


@pytest.mark.long
def test_one_that_failed_of_it_is_named_for_a_day_or_until_it_is_retried(shops: Shops) -> None:
    shop = shops.open(OUTBOX_MAX_CRASHES=3)
    first, second = shop.enqueue(), shop.enqueue()
    lose_before(shop, first.id, workers=2)
    lost(shop)
    shop.rescue()
    assert told(shop) == [(first.id, Status.FAILED, 3)]
    assert shop.status(second.id) is Status.PENDING
    assert f"flask outbox retry {first.id}" in crashing_findings(shop.runtime)[0].text
    shop.outbox.retry(first.id)
    assert told(shop) == []


def test_a_failed_one_is_forgotten_after_a_day(shops: Shops) -> None:
    shop = shops.open(OUTBOX_MAX_CRASHES=3)
    email = shop.enqueue()
    lose_before(shop, email.id, workers=2)
    lost(shop)
    shop.rescue()
    assert told(shop) == [(email.id, Status.FAILED, 3)]
    shop.later(TOLD + 1)
    assert told(shop) == []


def test_one_in_an_open_window_ends_unknown_and_is_named_until_a_person_settles_it(
    shops: Shops,
) -> None:
    shop = shops.open(OUTBOX_ON_UNKNOWN="hold")
    email = shop.enqueue()
    lost(shop)
    shop.rescue()
    lost(shop, email.id)
    shop.later(LEASE)
    assert told(shop) == [(email.id, Status.SENDING, 2)]
    shop.rescue()
    assert told(shop) == [(email.id, Status.UNKNOWN, 2)]
    assert f"flask outbox resolve {email.id}" in crashing_findings(shop.runtime)[0].text
    shop.outbox.resolve(email.id, "failed")
    assert told(shop) == []


@pytest.mark.long
def test_an_innocent_neighbour_does_not_take_the_place_of_a_worse_one(shop: Shop) -> None:
    worse = shop.enqueue()
    lose_before(shop, worse.id, workers=2)
    lost(shop)
    shop.rescue()
    other = shop.enqueue()
    lose_before(shop, other.id, workers=1)
    for made in shop.claim():
        ids = {row.id for row in shop.rows(shop.tables.email) if row.token == made.token}
        if other.id in ids:
            shop.start(made.token)
    shop.rescue()
    assert shop.email_row(other.id).crashes == 2
    assert told(shop) == [(worse.id, Status.PENDING, 3)]
