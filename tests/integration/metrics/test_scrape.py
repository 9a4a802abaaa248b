"""One statement reads what the metrics tell; it reads up to a limit, and no counter ever falls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from outbox.domain.delivery.breaker_timing import BreakerState, Cause
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.domain.fleet import ProcessId
from outbox.domain.metrics.scrape import CAME_INTO_DOUBT, EVENTS, Halt, Scrape
from outbox.domain.priority import Priority
from outbox.store import scrape as reader
from outbox.store.control import beat, circuit_breaker, fleet
from outbox.store.control.counter import UNKNOWN, bump
from outbox.store.rollup.fold import fold
from outbox.store.transitions.rescue import RESCUED
from outbox.store.transitions.window import LOST
from outbox.worker.batch.send_batch import STALE
from tests.integration.dashboard.scene import worker
from tests.integration.store.rollup.test_fold import again, tallied
from tests.support.shop.shop import Shop, Shops, entry, sent

pytestmark = pytest.mark.each_database

WAITING = dict.fromkeys(("due", "scheduled", "claimed", "sending", "attention"), 0)


def scrape(shop: Shop) -> Scrape:
    return shop.database.read(lambda c: reader.scrape(c, shop.database))


def counted(shop: Shop) -> dict[tuple[str, int], int]:
    """Return the attempts by verdict and bin."""
    found: dict[tuple[str, int], int] = {}
    for one in scrape(shop).attempts:
        key = one.verdict, one.bin
        found[key] = found.get(key, 0) + one.attempts
    return found


def highest(seconds: Mapping[int, float]) -> float:
    """Return the highest age as exact as `health` tells it."""
    return round(max(seconds.values()), 3)


@contextmanager
def statements(shop: Shop) -> Iterator[list[str]]:
    """Collect the statements on tables of the outbox."""
    seen: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        if "outbox_" in statement:
            seen.append(statement)

    sa.event.listen(shop.engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(shop.engine, "before_cursor_execute", note)


def test_an_empty_outbox_has_nothing_to_tell(shop: Shop) -> None:
    assert scrape(shop) == Scrape(
        attempts=(),
        emails=WAITING,
        oldest_due={},
        oldest_claimed={},
        halts=(),
        paused=(),
        beat_seconds=None,
        events={CAME_INTO_DOUBT: 0},
        workers=(),
    )


def test_a_scrape_is_one_statement(shop: Shop) -> None:
    shop.enqueue()
    tallied(shop, 1)
    worker(shop, "celery@mail-1")
    shop.outbox.metrics()
    with statements(shop) as seen:
        assert 'outbox_workers{state="busy"} 1' in shop.outbox.metrics()
    assert len(seen) == 1


def test_a_scrape_tells_of_each_worker_and_beat_what_says_in_which_state_it_is(shop: Shop) -> None:
    worker(shop, "celery@mail-1", started_at=shop.database.now(-60.0))
    stop = shop.database.now(-5.0)
    worker(shop, "beat@mail-1", seen=20.0, pool="beat", queues="a b", tasks=0, stopped_at=stop)
    read = shop.database.read(lambda connection: fleet.workers(connection, shop.database))
    found, rows = scrape(shop).workers, [row.last_beat for row in read]
    assert [one.name for one in found] == ["celery@mail-1", "beat@mail-1"]
    for one, row in zip(found, rows, strict=True):
        assert replace(one, started_seconds=0.0, seen_seconds=0.0) == replace(
            row, started_seconds=0.0, seen_seconds=0.0
        )
    assert (found[0].process, found[0].is_stopped) == (ProcessId("", 17, 1), False)
    assert (found[1].queues, found[1].is_stopped) == (("a", "b"), True)
    assert 60 <= found[0].started_seconds < 90
    assert 20 <= found[1].seen_seconds < 50


def test_a_scrape_tells_what_waits_and_what_is_in_flight(shop: Shop) -> None:
    ids = [shop.enqueue().id for _ in range(3)]
    made = shop.started()
    shop.open(made.token, *ids[:2])
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    shop.enqueue(send_at=tomorrow)
    for priority in ("urgent", "bulk"):
        shop.enqueue(priority=priority)
        shop.enqueue(priority=priority, send_at=tomorrow)
    shop.later(60)
    found = scrape(shop)
    assert found.emails == WAITING | {"due": 2, "scheduled": 3, "claimed": 1, "sending": 2}
    assert 60 <= found.oldest_due[Priority.URGENT] < 90
    assert 60 <= found.oldest_due[Priority.BULK] < 90
    assert found.oldest_due[Priority.NORMAL] == 0


def test_a_scrape_tells_by_priority_what_health_tells_of_the_oldest_emails(shop: Shop) -> None:
    """Sweeps without a worker claim what is due: then no email is due, and yet none leaves."""
    shop.enqueue(priority="bulk")
    shop.later(100)
    shop.enqueue()
    for priority in (Priority.NORMAL, Priority.BULK):
        shop.claim(priority=priority)
    shop.later(100)
    shop.enqueue(priority="urgent")
    shop.enqueue(priority="bulk")
    shop.later(100)
    before, health, found = scrape(shop), shop.outbox.health(), scrape(shop)
    assert {p: age // 100 for p, age in found.oldest_due.items()} == {0: 1, 2: 1}
    assert {p: age // 100 for p, age in found.oldest_claimed.items()} == {1: 2, 2: 3}
    due, claimed = health.oldest_due_seconds or 0.0, health.oldest_claimed_seconds or 0.0
    assert highest(before.oldest_due) <= due <= highest(found.oldest_due)
    assert max(before.oldest_claimed.values()) <= claimed <= max(found.oldest_claimed.values())


def test_a_scrape_tells_how_many_emails_need_a_person(shop: Shop) -> None:
    ids = [shop.enqueue().id for _ in range(3)]
    made = shop.started()
    shop.open(made.token, *ids)
    refused = Outcome(status=Status.FAILED, reply=Reply(code=550))
    shop.record(made.token, [sent(ids[0]), *(entry(n, refused, Verdict.FAIL) for n in ids[1:])])
    assert scrape(shop).emails == WAITING | {"attention": 2}


def test_emails_are_counted_up_to_a_limit(shops: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_COUNTED", 5)
    shop = shops.open(OUTBOX_DOMAIN_RATES={f"d{number}.example": "1/s" for number in range(4)})
    later = datetime.now(UTC) + timedelta(days=1)
    for number in range(4):
        for send_at in (None, None, later, later):
            shop.enqueue(f"r@d{number}.example", send_at=send_at)
    assert scrape(shop).emails == WAITING | {"due": 5, "scheduled": 5}


def test_a_scrape_tells_what_stands_still_and_what_was_rare(shop: Shop) -> None:
    database = shop.database
    circuit_breaker.trip(database, "mx:25", cause=Cause.SESSION, reason="refused", alert=True)
    shop.outbox.pause("bulk")
    beat.note(database)
    database.run(lambda c: bump(c, database, "lease_lost", 2))
    database.run(lambda c: bump(c, database, UNKNOWN))
    shop.later(100)
    found = scrape(shop)
    assert found.halts == (Halt("mx:25", BreakerState.OPEN, True),)
    assert (found.paused, found.events) == (("bulk",), {"lease_lost": 2, CAME_INTO_DOUBT: 1})
    assert found.beat_seconds is not None
    assert 99 <= found.beat_seconds < 130


def test_no_counter_falls_whatever_is_summed_up_or_taken_back(shop: Shop) -> None:
    tallied(shop, 2, minute=1)
    tallied(shop, 3, verdict="fail", bin=-1)
    assert counted(shop) == {("sent", 5): 2, ("fail", -1): 3}
    fold(shop.database)
    tallied(shop, 4)
    tallied(shop, -3, verdict="fail", bin=-1)
    expected = {("sent", 5): 6, ("fail", -1): 3}
    assert counted(shop) == expected
    again(shop)
    assert counted(shop) == expected


@pytest.mark.one_database("sqlite")
def test_each_rare_event_has_a_sample_from_the_start() -> None:
    assert {CAME_INTO_DOUBT, LOST, RESCUED, STALE} == set(EVENTS)
