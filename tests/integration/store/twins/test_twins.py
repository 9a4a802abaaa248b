"""Where PostgreSQL has a way of its own, it does what the portable way does, on the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.domain.figures.histogram import BOUNDS
from outbox.domain.scheduling.token_bucket import LONGEST, SLACK, Rate
from outbox.store.backend import backend_of
from outbox.store.control import rate_limits
from outbox.store.records import EmailResult
from outbox.store.transitions.window import advance
from tests.integration.store.inserts.test_insert import LATER, plain_driver, written
from tests.integration.twins import OTHERS, Twins, at, content, email, examples, lease
from tests.support.shop.shop import WORKER, Shop, entry, message, sent

pytestmark = pytest.mark.databases("postgresql")

MINE = UUID(int=1)
made_up = examples(50)


@pytest.fixture
def still(twins: Twins) -> Shop:
    """A shop where no time passes."""
    return twins.shop


def test_both_ways_are_run(twins: Twins) -> None:
    own, other = backend_of(twins.shop.database.dialect), backend_of(twins.portable.dialect)
    for way in (
        "advance",
        "take_permits",
        "claim_due",
        "claim_whole",
        "insert",
        "lane_keys",
        "due_counts",
        "waiting",
        "fold",
    ):
        assert getattr(own, way) is not None
        assert getattr(other, way) is None


# ---- windows

TOOK = [bound + more for bound in BOUNDS for more in (-1e-6, 0.0, 1e-6)]
"""Seconds from an email's due time to the end of its attempt, at the bounds of the histogram."""
DELAYS = st.sampled_from([0.0, 0.4, 7.25, 3600.0])
_ENDS = {
    Status.SENT: Verdict.SENT,
    Status.PENDING: Verdict.RETRY,
    Status.FAILED: Verdict.FAIL,
    Status.CLAIMED: Verdict.UNSENT,
}


@dataclass(frozen=True)
class InWindow:
    """An email of a batch, what came of it, and whether the next window is to have it."""

    row: dict[str, Any]
    result: EmailResult | None
    follows: bool


@st.composite
def in_window(draw: st.DrawFn, number: int) -> InWindow:
    status = draw(st.sampled_from([Status.SENDING] * 6 + [Status.CLAIMED] * 6 + list(Status)))
    row = email(
        number,
        status,
        token=draw(st.sampled_from([MINE, MINE, MINE, OTHERS])),
        due_at=at(draw(st.sampled_from([-10, 10]))),
        send_at=draw(st.sampled_from([None, at(-50)])),
        expires_at=draw(st.sampled_from([None, at(0), at(60), at(-60)])),
        unknown_token=draw(st.sampled_from([None, MINE])) if status is Status.PENDING else None,
        unknown_count=draw(st.integers(0, 2)),
        waited=draw(st.integers(0, 5)),
    )
    return InWindow(
        row, draw(st.none() | results(number)), draw(st.sampled_from([True, True, False]))
    )


def results(number: int) -> st.SearchStrategy[EmailResult]:
    def result(
        status: Status, delay: float, text: str, verdict: Verdict | None, took: float
    ) -> EmailResult:
        outcome = Outcome(
            status=status,
            reply=Reply(code=450, enhanced="4.2.0", text=text),
            delay=delay if status is Status.PENDING else 0.0,
            attempts_added=int(status is not Status.CLAIMED),
            crashes_added=-1 if status is Status.CLAIMED else 0,
        )
        finished_at = at(-5000 + number + took).timestamp()
        changes = {"server": "mx.example:25" * 30, "finished_at": finished_at}
        return entry(number, outcome, verdict or _ENDS[status], **changes)

    texts = st.sampled_from(["busy", 'a "b" \\c {d}, NULL', "ü\n", "x" * 600, ""])
    verdict = st.sampled_from([None, None, Verdict.HALT])
    took = st.sampled_from(TOOK) | st.floats(-1.0, 200_000.0)
    return st.builds(result, st.sampled_from(list(_ENDS)), DELAYS, texts, verdict, took)


@pytest.mark.long
@made_up
@given(data=st.data())
def test_a_window_is_recorded_and_opened_alike(twins: Twins, data: st.DataObject) -> None:
    emails = [data.draw(in_window(number)) for number in range(1, data.draw(st.integers(2, 6)))]
    found = [one.result for one in emails if one.result is not None]
    following = [one.row["id"] for one in emails if one.follows and one.result is None]
    own, other = twins.both(
        lambda database: advance(database, MINE, found, following, worker=WORKER * 30),
        content=[content()],
        email=[one.row for one in emails],
        lease=[lease(MINE), lease(OTHERS)],
    )
    assert own == other


def test_a_time_at_a_bound_of_the_histogram_is_in_the_same_bin(twins: Twins) -> None:
    rows, found = [], []
    for number, took in enumerate(TOOK, 1):
        rows.append(email(number, Status.SENDING, token=MINE))
        moment = at(-5000 + number + took).timestamp()
        found.append(replace(sent(number), finished_at=moment))
    own, other = twins.both(
        lambda database: advance(database, MINE, found, [], worker=WORKER),
        content=[content()],
        email=rows,
        lease=[lease(MINE)],
    )
    assert own == other
    assert len(own[1]["tally"]) > len(BOUNDS)


# ---- permits

NAMES = ("all", "domain:x.example", "route:a")
LAGS = st.sampled_from([-3600.0, -SLACK, -0.1, 0.0, 0.05, 30.0, LONGEST])


@st.composite
def bucket(draw: st.DrawFn, name: str) -> dict[str, Any]:
    taken_at = draw(st.sampled_from([None, at(-100), at(0), at(500)]))
    return {"name": name, "tat": at(draw(LAGS)), "taken_at": taken_at}


@pytest.mark.long
@made_up
@given(data=st.data())
def test_permits_are_taken_alike(twins: Twins, data: st.DataObject) -> None:
    rates = st.sampled_from([Rate(1, 3600), Rate(500, 60), Rate(7, 3)])
    costs = {
        name: (data.draw(rates), data.draw(st.integers(0, 900)))
        for name in data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    }
    wants = {name: cost for name, cost in costs.items() if data.draw(st.booleans())}
    known = data.draw(st.lists(st.sampled_from(NAMES), unique=True))
    margin = data.draw(st.sampled_from([0.0, 0.1, 60.0]))
    (own, first), (other, second) = twins.both(
        lambda database: rate_limits.take(database, wants, debts=costs, margin=margin),
        bucket=[data.draw(bucket(name)) for name in known],
    )
    assert own == pytest.approx(other, abs=1e-5)
    assert len(first["bucket"]) == len(second["bucket"])
    for (name, tat, taken), (name2, tat2, taken2) in zip(
        first["bucket"], second["bucket"], strict=True
    ):
        assert (name, taken) == (name2, taken2)
        assert tat.timestamp() == pytest.approx(tat2.timestamp(), abs=1e-5)


# ---- inserts


def test_emails_are_inserted_alike(still: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def recipients(since: int) -> list[tuple[Any, ...]]:
        rows = still.rows(still.tables.recipient)[since:]
        return [(row.position, row.address, row.status, row.code, row.reply) for row in rows]

    with still.session() as session:  # a large content that both find again
        still.outbox.enqueue(message(text="Terms. " * 20_000), session=session, send_at=LATER)
        session.commit()
    fast = written(still)
    plain_driver(monkeypatch)
    slow = written(still)
    assert len(fast) == len(slow) == 13
    for one, other in zip(fast, slow, strict=True):
        for row in (one, other):
            del row["size"], row["content"]  # their Message-IDs and dates are not the same
        assert one == other
    half = still.count(still.tables.recipient) // 2
    assert recipients(half) == recipients(0)[:half]
    assert half > 1
