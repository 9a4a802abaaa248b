"""Looking for due emails where they begin: nothing is missed, and what is behind is not read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from outbox import Priority
from outbox.domain.scheduling.claim_plan import ClaimRequest, LaneKey
from outbox.store.queries.sweep.low_water_mark import TRUST
from outbox.store.queries.sweep.sweep_snapshot import read_snapshot
from outbox.store.records import Mark
from outbox.store.transitions.claim import claim
from outbox.worker.sweep import sweep
from tests.support.shop.shop import LEASE, START, Shop

pytestmark = pytest.mark.each_database

WAY = ("", Priority.NORMAL)


def small(shop: Shop) -> None:
    """Two batches of two emails are all that a sweep counts."""
    shop.runtime.settings = replace(shop.runtime.settings, slots=2, batch=2, window=1)


def status(shop: Shop, email_id: int) -> str:
    """Return an email's status."""
    (row,) = shop.rows(shop.tables.email, shop.tables.email.c.id == email_id)
    return str(row.status)


def sweeps(shop: Shop) -> int:
    """Sweep, and end the claims at once; return how many emails were claimed."""
    made = sweep(shop.runtime, lambda _: None)
    with shop.engine.begin() as connection:
        connection.execute(shop.tables.lease.delete())
    return made


def test_a_claim_begins_where_the_snapshot_saw_the_first_email(shop: Shop) -> None:
    early = shop.enqueue(send_at=START - timedelta(days=1))
    first, second = shop.enqueue(send_at=START), shop.enqueue(send_at=START)
    share = ClaimRequest(lane="", priority=Priority.NORMAL, batches=1, size=2)
    mark = Mark(START, first.id)

    (made,) = claim(shop.database, [share], lease_seconds=LEASE, since={WAY: mark})

    rows = {row.id for row in shop.rows(shop.tables.email) if row.token == made.token}
    if shop.database.dialect == "postgresql":
        assert rows == {first.id, second.id}
    else:  # it keeps no dead entries there, and the claim takes the oldest
        assert rows == {early.id, first.id}


@pytest.mark.databases("postgresql")  # elsewhere no look has a mark
def test_a_snapshot_tells_where_the_due_emails_begin_and_looks_from_there_on(shop: Shop) -> None:
    ids = [shop.enqueue(send_at=START).id for _ in range(3)]
    lanes, servers = shop.runtime.lanes, shop.runtime.servers
    found = read_snapshot(shop.database, lanes, servers, limit=9)
    assert found.first[WAY].id == ids[0]

    since = {WAY: Mark(found.first[WAY].due_at, ids[1])}
    found = read_snapshot(shop.database, lanes, servers, limit=9, since=since)
    assert (found.due[WAY].emails, found.first[WAY].id) == (2, ids[1])


ENDS = (Priority.URGENT, Priority.BULK)
LANES = ["", "@a.example", "@b.example", "news", "~"]


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("marked", [[0], [4], [0, 1, 2, 3, 4], [1, 3], [2, 2]])
def test_marked_ways_hide_no_other_and_none_is_found_twice(shop: Shop, marked: list[int]) -> None:
    table = shop.tables.email
    first: dict[LaneKey, Mark] = {}
    for lane in LANES:
        for priority in Priority:
            ids = [shop.enqueue(send_at=START, priority=priority).id for _ in range(2)]
            with shop.engine.begin() as connection:
                connection.execute(update(table).where(table.c.id.in_(ids)).values(lane=lane))
            first[lane, priority] = Mark(START, ids[0])
    since = {(LANES[n], priority): first[LANES[n], priority] for n in marked for priority in ENDS}
    lanes, servers = shop.runtime.lanes, shop.runtime.servers
    found = read_snapshot(shop.database, lanes, servers, limit=9, since=since)
    assert found.first == first
    assert {due.emails for due in found.due.values()} == {2}


@pytest.mark.long
def test_an_email_behind_the_mark_waits_a_moment_at_most(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(shop)
    now = 0.0
    monkeypatch.setattr(shop.runtime, "clock", lambda: now)
    monkeypatch.setattr(shop.runtime.low_water, "_until", 0.0)
    for _ in range(10):
        shop.enqueue(send_at=START)
    assert sweeps(shop) == 4

    behind = shop.enqueue(send_at=START - timedelta(days=1)).id
    assert sweeps(shop) == 4
    waited = shop.database.dialect == "postgresql"
    assert (status(shop, behind) == "pending") is waited

    for _ in range(9):
        shop.enqueue(send_at=START)
    now = TRUST
    sweeps(shop)
    assert status(shop, behind) == "claimed"


def test_no_sweep_says_that_nothing_is_due_because_of_a_mark(shop: Shop) -> None:
    small(shop)
    for _ in range(4):
        shop.enqueue(send_at=START)
    assert sweeps(shop) == 4
    behind = shop.enqueue(send_at=START - timedelta(days=1)).id

    assert sweeps(shop) == 1
    assert status(shop, behind) == "claimed"
