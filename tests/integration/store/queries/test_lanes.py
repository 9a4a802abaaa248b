"""Lanes: what is claimed of which, what a closed one costs, and who comes first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text, update

from outbox import Priority, Status
from outbox.domain.scheduling.claim_plan import AGED
from outbox.domain.scheduling.lanes import AHEAD
from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.control import pause
from outbox.store.control.rate_limits import take
from outbox.store.queries.sweep.sweep_snapshot import read_snapshot
from outbox.store.records import Claim
from outbox.worker.sweep import sweep
from tests.support.shop.shop import START, Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.each_database

GMAIL = {"gmail.com": "20/s"}
HOURLY = Rate(1, 3600)


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """A shop with a rate for one domain."""
    return shops.open(OUTBOX_DOMAIN_RATES=GMAIL)


def swept(shop: Shop) -> list[Claim]:
    claims: list[Claim] = []
    sweep(shop.runtime, claims.append)
    return claims


def close(shop: Shop, bucket: str, hours: int = 1) -> None:
    assert take(shop.database, {}, debts={bucket: (HOURLY, hours)}) == 0.0


def bulk(shop: Shop, count: int, domain: str = "readers.example") -> None:
    readers = [address.replace("readers.example", domain) for address in addresses(count)]
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), readers, session=session)
        session.commit()


def test_an_email_is_stored_in_its_lane_by_every_way_of_enqueueing(shop: Shop) -> None:
    shop.enqueue("a@x.example")
    shop.enqueue("a@x.example", "b@GMail.com", key="k")
    bulk(shop, 2, "gmail.com")
    with shop.session() as session:
        messages = [message("a@gmail.com"), message("a@x.example", "b@y.example")]
        shop.outbox.enqueue_many(messages, session=session)
        session.commit()
    lanes = [row.lane for row in shop.rows(shop.tables.email)]
    assert lanes == ["", "@gmail.com", "@gmail.com", "@gmail.com", "@gmail.com", ""]


def test_a_batch_is_of_one_lane_and_its_lease_says_which(shop: Shop) -> None:
    for address in ("a@x.example", "a@gmail.com", "b@gmail.com"):
        shop.enqueue(address)
    claims = swept(shop)
    assert {(made.lane, made.emails) for made in claims} == {("", 1), ("@gmail.com", 2)}
    leases = {(row.lane, row.emails) for row in shop.rows(shop.tables.lease)}
    assert leases == {("", 1), ("@gmail.com", 2)}
    batches = [shop.start(made.token) for made in claims]
    assert {batch.lane for batch in batches if batch} == {"", "@gmail.com"}


def test_a_closed_lane_is_not_claimed_and_keeps_nobody_else_waiting(shop: Shop) -> None:
    waiting = shop.enqueue("a@gmail.com")
    shop.enqueue("a@x.example")
    close(shop, "domain:gmail.com")
    assert [made.lane for made in swept(shop)] == [""]
    assert shop.status(waiting.id) is Status.PENDING
    shop.later(3600)
    assert [made.lane for made in swept(shop)] == ["@gmail.com"]


def test_a_lane_is_claimed_from_shortly_before_it_opens(shop: Shop) -> None:
    shop.enqueue("a@gmail.com")
    close(shop, "domain:gmail.com")
    shop.later(3600 - 20 * AHEAD)
    assert swept(shop) == []
    shop.later(19.5 * AHEAD)
    assert [made.lane for made in swept(shop)] == ["@gmail.com"]


def test_the_rate_of_all_closes_every_lane(shops: Shops) -> None:
    shop = shops.open(OUTBOX_RATE="500/min", OUTBOX_DOMAIN_RATES=GMAIL)
    shop.enqueue("a@gmail.com")
    shop.enqueue("a@x.example", priority=Priority.URGENT)
    close(shop, "all")
    assert swept(shop) == []


def test_who_finds_a_closed_lane_asks_to_be_woken_when_it_opens(shops: Shops) -> None:
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/h"})
    asked: list[float] = []
    sweep(shop.runtime, lambda _: None, asked.append)
    assert asked == []
    close(shop, "domain:gmail.com")
    sweep(shop.runtime, lambda _: None, asked.append)
    assert len(asked) == 1
    assert 3500 < asked[0] <= 3600 - AHEAD
    shop.later(3600)
    sweep(shop.runtime, lambda _: None, asked.append)
    assert len(asked) == 1, "an open lane asks for nothing: a sweep must not bring the next one"


def test_of_a_limited_lane_two_seconds_worth_is_in_flight_and_the_rest_waits_in_the_table(
    shop: Shop,
) -> None:
    bulk(shop, 100, "gmail.com")
    claimed = sum(made.emails for made in swept(shop))
    assert 40 <= claimed <= 42  # three batches of the same size
    assert swept(shop) == []
    assert shop.statuses().count("pending") == 100 - claimed


@pytest.mark.parametrize("scope", [None, Priority.NORMAL])
def test_neither_a_pause_nor_a_closed_lane_hides_what_it_does_not_hold(
    shop: Shop, scope: Priority | None
) -> None:
    shop.enqueue("a@x.example", priority=Priority.URGENT)
    shop.enqueue("a@x.example")
    shop.database.run(lambda c: pause.pause(c, shop.database, scope))
    assert [made.priority for made in swept(shop)] == ([Priority.URGENT] if scope else [])


def explained(shop: Shop, start: str) -> list[dict[str, Any]]:
    """Run a sweep; return the plan's nodes of its first statement that starts so, as it ran."""
    seen: list[tuple[str, Any]] = []

    def note(conn: object, cursor: object, statement: str, values: Any, *rest: object) -> None:
        if statement.startswith(start):
            seen.append((statement, values))

    event.listen(shop.engine, "before_cursor_execute", note)
    with shop.engine.connect() as connection:
        swept(shop)
        event.remove(shop.engine, "before_cursor_execute", note)
        for method in ("seqscan", "bitmapscan"):  # these tables are too small for an index
            connection.execute(text(f"SET enable_{method} = off"))
        statement, values = seen[0]
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
        ((plan,),) = connection.exec_driver_sql(explain, values).scalars()
        connection.rollback()
    nodes = [plan["Plan"]]
    for node in nodes:
        nodes += node.get("Plans", [])
    return nodes


@pytest.mark.databases("postgresql")
def test_a_claim_reads_its_lane_in_the_order_of_the_index(shop: Shop) -> None:
    bulk(shop, 50, "gmail.com")
    nodes = explained(shop, "WITH due")
    (scan,) = [node for node in nodes if node.get("Index Name") == "ix_outbox_email_due"]
    assert "lane" in scan["Index Cond"]
    assert "Sort" not in {node["Node Type"] for node in nodes}


@pytest.mark.matrix
@pytest.mark.parametrize("lane", ["@gone.example", "old", "old@gmail.com", "~"])
def test_emails_in_a_lane_that_the_settings_no_longer_name_go_out(shop: Shop, lane: str) -> None:
    email = shop.enqueue("a@x.example")
    table = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(update(table).values(lane=lane))
    (made,) = swept(shop)
    assert (made.lane, shop.status(email.id)) == (lane, Status.CLAIMED)


@pytest.mark.long
def test_many_lanes_that_nobody_names_are_all_found(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SLOTS=20)
    table = shop.tables.email
    for number in range(12):
        email_id = shop.enqueue("a@x.example").id
        with shop.engine.begin() as connection:
            stray = update(table).where(table.c.id == email_id).values(lane=f"r{number}")
            connection.execute(stray)
    claims = swept(shop) + swept(shop)
    assert sorted(made.lane for made in claims) == sorted(f"r{number}" for number in range(12))


def test_a_sweep_of_many_lanes_that_finds_nothing_is_one_statement(shops: Shops) -> None:
    rates = {f"d{number}.example": "20/s" for number in range(10)}
    shop = shops.open(OUTBOX_RATE="500/min", OUTBOX_DOMAIN_RATES=rates)
    shop.enqueue("a@d1.example", send_at=START + timedelta(days=36_500))
    close(shop, "all")
    assert swept(shop) == []  # a process's first sweep also asks for the instance
    shop.runtime.slots.share(4)  # as in a worker, where nothing is read for them
    statements: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        if not statement.startswith(("PRAGMA", "BEGIN", "ROLLBACK")):
            statements.append(statement)

    event.listen(shop.engine, "before_cursor_execute", note)
    assert swept(shop) == []
    assert len(statements) == 1


def test_a_sweep_claims_all_its_batches_in_one_transaction(shop: Shop) -> None:
    assert swept(shop) == []  # a process's first sweep also notes the instance
    bulk(shop, 100)
    shop.enqueue("a@x.example", priority=Priority.URGENT)
    committed: list[object] = []
    event.listen(shop.engine, "commit", committed.append)
    assert len(swept(shop)) == 4
    assert len(committed) == 1
    assert shop.count(shop.tables.lease) == 4


@pytest.mark.long
def test_an_urgent_email_is_claimed_next_while_bulk_takes_every_slot_it_may(shop: Shop) -> None:
    bulk(shop, 3000)
    assert {made.priority for made in swept(shop)} == {Priority.BULK}
    shop.enqueue("a@x.example", priority=Priority.URGENT)
    assert [made.priority for made in swept(shop)] == [Priority.URGENT]


@pytest.mark.long
def test_bulk_that_has_waited_long_is_claimed_though_normal_email_takes_every_slot(
    shops: Shops,
) -> None:
    shop = shops.open(OUTBOX_SLOTS=2, OUTBOX_BATCH=20, OUTBOX_LEASE=1000.0)
    bulk(shop, 50)
    for address in addresses(60):
        shop.enqueue(address)
    assert [made.priority for made in swept(shop)] == [Priority.NORMAL] * 2
    assert swept(shop) == []
    shop.later(AGED + 1)
    assert [made.priority for made in swept(shop)] == [Priority.BULK]
    assert swept(shop) == [], "one window of bulk at a time"


def test_a_snapshot_tells_how_far_its_buckets_are_from_open(shops: Shops) -> None:
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/h"})
    close(shop, "domain:gmail.com")
    close(shop, "domain:other.example")
    found = read_snapshot(shop.database, shop.runtime.lanes, shop.runtime.servers, limit=1)
    assert list(found.lags) == ["domain:gmail.com"]
    assert 3500 < found.lags["domain:gmail.com"] <= 3600
