"""A thousand domains with rates over five routes: what holds nothing costs nothing.

What is counted is the statements' size, and how many emails they go through; no time decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event

from outbox import Priority
from outbox.domain.scheduling.lanes import Lanes
from outbox.store.control import pause
from outbox.store.queries.sweep.sweep_snapshot import COUNTED, read_snapshot
from outbox.store.queries.sweep.urgent_email import is_urgent_active
from outbox.worker.sweep import sweep
from tests.integration.store.queries.test_lanes import close, swept
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps.giving_way import gives_way

pytestmark = pytest.mark.each_database

DOMAINS = 1000
ROUTES = [f"r{number}" for number in range(4)]


def opened(shops: Shops, domains: int, **settings: Any) -> Shop:
    """A shop with so many limited domains, over five routes."""
    routes = [{"name": name, "tag": name, "servers": ["mx"]} for name in ROUTES]
    return shops.open(
        OUTBOX_DOMAIN_RATES={f"d{number}.example": "20/s" for number in range(domains)},
        OUTBOX_SERVERS=[{"name": "mx", "server": "127.0.0.1"}],
        OUTBOX_ROUTES=routes,
        **settings,
    )


def enqueue(
    shop: Shop, domains: int, priority: Priority = Priority.NORMAL, emails: int = 1
) -> None:
    """Write so many emails to each of these domains, over the routes in turn."""
    tags = [None, *ROUTES]
    with shop.session() as session:
        for number in range(domains):
            readers = (message(f"a{n}@d{number}.example") for n in range(emails))
            tag = tags[number % len(tags)]
            shop.outbox.enqueue_many(readers, session=session, priority=priority, tag=tag)
        session.commit()


def statements(shop: Shop, look: Callable[[], object]) -> list[str]:
    """Return what is asked of the database."""
    seen: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        if not statement.startswith(("PRAGMA", "BEGIN", "ROLLBACK")):
            seen.append(statement)

    event.listen(shop.engine, "before_cursor_execute", note)
    look()
    event.remove(shop.engine, "before_cursor_execute", note)
    return seen


def looks(shop: Shop) -> list[Callable[[], object]]:
    """Return what is asked over and over while nothing, or other email, is due."""
    return [
        lambda: sweep(shop.runtime, lambda _: None),
        lambda: gives_way(shop, Priority.BULK, slots=4),
        *looks_for_urgent(shop),
    ]


def looks_for_urgent(shop: Shop) -> list[Callable[[], object]]:
    """Return those of them that look for urgent email alone."""
    database, lanes, lane = shop.database, shop.runtime.lanes, "r1@d1.example"
    return [
        lambda: gives_way(shop, slots=4),
        lambda: is_urgent_active(database, lanes, lane),
    ]


def test_no_statement_grows_with_the_lanes_that_hold_nothing(shops: Shops) -> None:
    few, many = opened(shops, 1), opened(shops, DOMAINS)
    for shop in (few, many):
        swept(shop)  # opens the connection, and asks who is behind it
    for small, large in zip(looks(few), looks(many), strict=True):
        asked = statements(many, large)
        assert asked == statements(few, small)
        assert asked
        assert "example" not in " ".join(asked)


def test_of_a_thousand_domains_what_holds_emails_is_claimed(shops: Shops) -> None:
    shop = opened(shops, DOMAINS, OUTBOX_SLOTS=7)
    enqueue(shop, 5, emails=2)
    claims = swept(shop)
    expected = [f"{route}@d{number}.example" for number, route in enumerate(["", *ROUTES])]
    assert [(made.lane, made.emails) for made in claims] == [(lane, 2) for lane in expected]


@pytest.mark.over_and_over
@pytest.mark.long
def test_more_lanes_than_are_counted_are_all_emptied(shops: Shops) -> None:
    shop = opened(shops, DOMAINS, OUTBOX_SLOTS=COUNTED + 20)
    lanes = COUNTED + 10
    enqueue(shop, lanes)
    claims = swept(shop)
    assert len({made.lane for made in claims}) == sum(made.emails for made in claims) == lanes


def read_by(shop: Shop, look: Callable[[], object]) -> int:
    """Return how many entries of the index of due emails a look goes through."""
    seen: list[tuple[str, Any]] = []

    def note(conn: object, cursor: object, statement: str, values: Any, *rest: object) -> None:
        if "outbox_email" in statement:
            seen.append((statement, values))

    event.listen(shop.engine, "before_cursor_execute", note)
    look()
    event.remove(shop.engine, "before_cursor_execute", note)
    with shop.engine.connect() as connection:
        for method in ("seqscan", "bitmapscan"):  # these tables are too small for an index
            connection.exec_driver_sql(f"SET enable_{method} = off")
        total = 0
        for statement, values in seen:
            explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
            ((plan,),) = connection.exec_driver_sql(explain, values).scalars()
            total += sum(each_read(plan["Plan"]))
        connection.rollback()
    return total


def each_read(node: dict[str, Any]) -> Iterator[int]:
    if node.get("Index Name") == "ix_outbox_email_due":
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield round(rows * node["Actual Loops"])  # told as an average, to the hundredth
    for child in node.get("Plans", []):
        yield from each_read(child)


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_snapshot_takes_a_step_for_each_lane_that_holds_emails(shops: Shops) -> None:
    shop = opened(shops, DOMAINS)
    lanes, servers = shop.runtime.lanes, shop.runtime.servers

    def look() -> object:
        return read_snapshot(shop.database, lanes, servers, limit=1600)

    assert read_by(shop, look) == 0
    enqueue(shop, 30, emails=3)
    assert read_by(shop, look) == 30 + 90, "a step to each, and its emails are counted"
    close(shop, "domain:d7.example")
    assert read_by(shop, look) == 30 + 87, "a closed lane costs no look at its emails"
    shop.database.run(lambda c: pause.pause(c, shop.database, Priority.NORMAL))
    assert read_by(shop, look) == 30


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_look_for_urgent_email_passes_over_lanes_in_which_other_email_waits(shops: Shops) -> None:
    shop = opened(shops, DOMAINS)
    enqueue(shop, 30)
    enqueue(shop, 2, Priority.URGENT, emails=9)
    shop.later(2.0)  # long enough for both to ask whether somebody holds an email
    gives_way, is_active = looks_for_urgent(shop)
    assert read_by(shop, is_active) == 2 + 1, "a step to each, and the email that it asks for"
    assert read_by(shop, gives_way) == 2 + 2 + 1, "and a step to each to plan what could go"


@pytest.mark.long
def test_a_plan_asks_each_lane_that_holds_emails_a_few_times(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's work too grows with what is there, and in proportion to it."""
    shop = opened(shops, DOMAINS)
    asked = 0
    buckets = Lanes.buckets

    def counted(self: Lanes, lane: str) -> Any:
        nonlocal asked
        asked += 1
        return buckets(self, lane)

    monkeypatch.setattr(Lanes, "buckets", counted)
    swept(shop)
    assert asked == 0
    for lanes in (40, 80):
        enqueue(shop, lanes)
        asked = 0
        swept(shop)
        assert 0 < asked <= 10 * lanes
        with shop.engine.begin() as connection:
            connection.execute(shop.tables.lease.delete())
