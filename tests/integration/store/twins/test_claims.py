"""On PostgreSQL emails are claimed and counted in one statement as they are in steps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.status import Status
from outbox.domain.priority import Priority
from outbox.domain.scheduling.claim_plan import ClaimRequest
from outbox.store.queries.sweep.sweep_snapshot import read_snapshot
from outbox.store.records import Mark
from outbox.store.scrape import scrape
from outbox.store.transitions.claim import claim
from tests.integration.twins import OTHERS, Twins, at, content, email, examples, lease
from tests.support.shop.shop import LEASE

pytestmark = pytest.mark.databases("postgresql")

LOST = UUID(int=3)
made_up = examples(50)


@st.composite
def waiting(draw: st.DrawFn, number: int) -> dict[str, Any]:
    return email(
        number,
        draw(st.sampled_from([Status.PENDING] * 5 + [Status.CLAIMED, Status.SENT])),
        token=OTHERS,
        lane=draw(st.sampled_from(["", "@a.example", "@x.example"])),
        priority=draw(st.sampled_from([0, 1])),
        due_at=at(draw(st.sampled_from([-30, -20, -20, 0, 0.001, 40]))),
        crashes=draw(st.sampled_from([0, 0, 0, 1, 2, 3])),
        unknown_count=draw(st.integers(0, 1)),
        unknown_token=draw(st.sampled_from([None, LOST])),
    )


def _first_due(rows: list[dict[str, Any]], share: ClaimRequest) -> Mark | None:
    """Return where a sweep sees the first due email of this way."""
    own = [
        Mark(row["due_at"], row["id"])
        for row in rows
        if row["status"] is Status.PENDING
        and (row["lane"], row["priority"]) == (share.lane, share.priority)
        and row["due_at"] <= at(0)
    ]
    return min(own, key=lambda mark: (mark.due_at, mark.id), default=None)


@pytest.mark.long
@made_up
@given(data=st.data())
def test_emails_are_claimed_alike(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(waiting(number)) for number in range(1, data.draw(st.integers(2, 12)))]
    shares = [
        ClaimRequest(
            lane=lane,
            priority=Priority(priority),
            batches=data.draw(st.integers(1, 2)),
            size=data.draw(st.integers(1, 4)),
        )
        for lane in ("", "@x.example")
        for priority in (0, 1)
    ]
    marks = {(s.lane, s.priority): _first_due(rows, s) for s in shares}
    if data.draw(st.booleans()):
        marks = {}
    since = {way: mark for way, mark in marks.items() if mark is not None}
    own, other = twins.both(
        lambda database: [
            (made.lane, made.priority, made.emails)
            for made in claim(database, shares, lease_seconds=LEASE, since=since)
        ],
        content=[content()],
        email=rows,
        lease=[lease(OTHERS)],
    )
    assert own == other


@pytest.mark.long
@made_up
@given(data=st.data())
def test_one_batch_alone_is_claimed_alike(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(waiting(number)) for number in range(1, data.draw(st.integers(2, 6)))]
    size, lane = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(["", "@x.example"]))
    share = ClaimRequest(lane=lane, priority=Priority(0), batches=1, size=size)
    mark = _first_due(rows, share) if data.draw(st.booleans()) else None
    since = {(share.lane, share.priority): mark} if mark is not None else {}
    own, other = twins.both(
        lambda database: [
            (made.lane, made.priority, made.emails)
            for made in claim(database, [share], lease_seconds=LEASE, since=since)
        ],
        content=[content()],
        email=rows,
        lease=[lease(OTHERS)],
    )
    assert own == other


@pytest.mark.long
@made_up
@given(data=st.data())
def test_what_is_due_is_found_and_counted_alike(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(waiting(number)) for number in range(1, data.draw(st.integers(2, 12)))]
    limit, runtime = data.draw(st.integers(1, 9)), twins.shop.runtime
    (own, _), (other, _) = twins.both(
        lambda database: read_snapshot(database, runtime.lanes, runtime.servers, limit=limit).due,
        content=[content()],
        email=rows,
    )
    assert own == other


@pytest.mark.long
@made_up
@given(data=st.data())
def test_what_waits_is_counted_alike_for_the_metrics(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(waiting(number)) for number in range(1, data.draw(st.integers(2, 12)))]
    (own, _), (other, _) = twins.both(
        lambda database: database.read(lambda connection: scrape(connection, database)).emails,
        content=[content()],
        email=rows,
    )
    assert own == other
