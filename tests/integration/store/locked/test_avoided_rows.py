"""A process that did not get a row claims nothing that needs it for a while: others have the slots.

A connection that holds the row in an open transaction is a host that vanished.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from outbox import Priority
from outbox.domain.delivery.transaction import Phase
from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.control.blame import suspicion
from outbox.store.control.rate_limits import correct_buckets, take
from outbox.worker.batch.throttle import Throttle
from tests.integration.blame.server import ClassServer, Habit
from tests.integration.store.locks import ROUTES, SENT, UNTOUCHED, in_time, vanished
from tests.integration.worker.batch.started import batch
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.giving_way import gives_way
from tests.support.shop.steps.motion import Motion, server, standing, write

pytestmark = pytest.mark.databases("postgresql", "mariadb")

HOUR = 3600.0
ONE_SLOT = {"OUTBOX_SLOTS": 1, "OUTBOX_ROUTES": ROUTES}


@pytest.mark.long
@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.URGENT])
def test_with_one_slot_a_locked_cap_keeps_no_others_emails(
    shops: Shops, catcher: Catcher, priority: Priority
) -> None:
    keeps_no_other(shops, catcher, priority, connections=1)


@pytest.mark.databases("mariadb")  # PostgreSQL has it in one statement
@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.URGENT])
def test_with_one_slot_a_locked_rate_keeps_no_others_emails(
    shops: Shops, catcher: Catcher, priority: Priority
) -> None:
    keeps_no_other(shops, catcher, priority, rate="1000/s")


def keeps_no_other(shops: Shops, catcher: Catcher, priority: Priority, **limit: object) -> None:
    """Hold the row of a limit; the emails behind it are due first."""
    servers = [server("a", catcher.port, **limit), server("b", catcher.port)]
    motion = Motion(shop=shops.open(OUTBOX_SERVERS=servers, **ONE_SLOT))
    shop = motion.shop
    write(shop, 1, tag="news")
    motion.beat()
    table = shop.tables.bucket if "rate" in limit else shop.tables.server
    (key,) = table.primary_key
    [row] = shop.rows(table)
    with vanished(shop, table, getattr(row, key.name)) as session:
        write(shop, 5, tag="news", priority=priority)
        write(shop, 5)
        for _ in range(2):  # the first sweep's batch finds that it does not get the row
            in_time(motion.beat, session)
        assert standing(shop) == {SENT: 6, UNTOUCHED: 5}
        claims = len(motion.claims)
        in_time(motion.beat, session)
        assert len(motion.claims) == claims
        assert not yields(shop), "for emails that cannot go"
    shop.database.avoided.clear()  # as AVOIDED seconds later
    assert yields(shop) is (priority is Priority.URGENT)
    motion.beat()
    assert standing(shop) == {SENT: 11}


def yields(shop: Shop) -> bool:
    return gives_way(shop, slots=1)


@pytest.mark.long
def test_a_server_whose_breaker_cannot_be_opened_gets_no_batch_after_batch(shops: Shops) -> None:
    """It halts each email behind an open session: they go back uncharged, and could go at once."""
    with ClassServer(Habit(phase=Phase.MAIL, answer="421 4.3.2 closing")) as closing:
        motion = Motion(shop=shops.open(OUTBOX_SERVERS=[server("a", closing.port)]))
        shop = motion.shop
        suspicion.suspect(shop.database, "a", email_id=0, reason="451")
        with vanished(shop, shop.tables.breaker, "a") as session:
            write(shop, 5)
            in_time(motion.beat, session)
            assert len(motion.claims) == 1
            in_time(motion.beat, session)
            assert len(motion.claims) == 1
        assert standing(shop) == {UNTOUCHED: 5}


@pytest.mark.databases("mariadb")  # PostgreSQL has it in one statement
def test_where_a_servers_rate_is_locked_its_emails_go_over_the_next(
    shops: Shops, catcher: Catcher
) -> None:
    first = server("a", catcher.port, rate="1000/s", order=0)
    servers = [first, server("b", catcher.port, order=1)]
    motion = Motion(shop=shops.open(OUTBOX_SERVERS=servers))
    shop = motion.shop
    write(shop, 1)
    motion.beat()
    [bucket] = shop.rows(shop.tables.bucket)
    with vanished(shop, shop.tables.bucket, bucket.name) as session:
        write(shop, 5)
        in_time(motion.beat, session)
        assert standing(shop) == {SENT: 6}


@pytest.mark.long
@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.URGENT])
def test_a_locked_rate_of_another_domain_keeps_no_email_of_its_lane(
    shops: Shops, catcher: Catcher, priority: Priority
) -> None:
    """The first email of the lane goes to both domains, and would go back again and again."""
    rates = {"slow.example": "1000/s", "quick.example": "2000/s"}
    motion = Motion(shop=shops.open(MAIL_PORT=catcher.port, OUTBOX_DOMAIN_RATES=rates))
    shop = motion.shop
    shop.enqueue("ada@quick.example")
    motion.beat()
    with vanished(shop, shop.tables.bucket, "domain:quick.example") as session:
        shop.enqueue("ada@slow.example", "ada@quick.example", priority=priority)
        shop.enqueue("bob@slow.example", priority=priority)
        shop.enqueue("bob@quick.example", priority=priority)
        for _ in range(2):
            in_time(motion.beat, session)
        assert standing(shop) == {SENT: 3, UNTOUCHED: 1}
    shop.database.avoided.clear()  # as AVOIDED seconds later
    motion.beat()
    assert standing(shop) == {SENT: 4}


def test_a_locked_share_of_bulk_keeps_no_bulk_email(shops: Shops) -> None:
    """No claim looks at it: the batch would be given back and claimed again and again."""
    shop = shops.open(OUTBOX_RATE="1000/s")
    made = batch(shop, priority=Priority.BULK)
    shop.enqueue(priority=Priority.URGENT)
    assert Throttle(shop.runtime, made).permit(made.emails)
    with vanished(shop, shop.tables.bucket, "all/bulk") as session:
        assert in_time(lambda: Throttle(shop.runtime, made).permit(made.emails), session)


@pytest.mark.databases("mariadb")
def test_a_locked_bucket_leaves_no_other_one_shut(shop: Shop) -> None:
    names, bucket = ["free", "locked"], shop.tables.bucket
    shop.later(HOUR)
    for name in names:
        take(shop.database, {name: (Rate(1, 1), 1)})
    shop.later(-HOUR)
    with vanished(shop, bucket, "locked") as session:
        in_time(lambda: correct_buckets(shop.database, dict.fromkeys(names, HOUR)), session)
        free, locked = (row.taken_at for row in shop.rows(bucket))
        assert locked - free > timedelta(seconds=HOUR / 2)
