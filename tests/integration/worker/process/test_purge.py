"""A purge in Celery takes a process for a moment only, and never one that urgent email needs."""

from __future__ import annotations

import logging
from contextlib import closing
from itertools import count

import pytest

from outbox import Priority
from outbox.domain.config.retention import Retention
from outbox.store.control import lease
from outbox.store.retention import walk
from outbox.store.retention.mark import LEASE, PurgeUnderWay
from outbox.store.retention.purge import Removed, purge
from outbox.store.transitions.release import give_back
from outbox.worker.process import shutdown
from outbox.worker.purge import POLL, REST, SECONDS, purge_all, purge_briefly
from tests.integration.store.purge.test_purge_run import withdrawn
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("postgresql")

DAY = 86_400.0
MONTH = 31 * DAY


@pytest.fixture
def old(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop with five emails that are past their retention, and purged one by one."""
    monkeypatch.setattr(walk, "CHUNK", 1)
    withdrawn(shop, 5)
    shop.later(MONTH)
    return shop


def left(shop: Shop) -> int:
    return shop.count(shop.tables.email)


@pytest.mark.long
def test_a_purge_ends_after_some_seconds_and_the_next_one_goes_on(
    old: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(0.0, SECONDS / 2)
    monkeypatch.setattr(old.runtime, "clock", lambda: next(seconds))
    assert purge_briefly(old.runtime).emails < 5
    assert 0 < left(old) < 5
    monkeypatch.setattr(old.runtime, "clock", lambda: 0.0)
    purge_briefly(old.runtime)
    assert left(old) == 0


def test_a_purge_gives_way_to_urgent_email(old: Shop) -> None:
    old.enqueue(priority=Priority.URGENT)
    old.later(1)
    assert purge_briefly(old.runtime) == Removed(emails=1)
    assert left(old) == 5


def test_a_purge_ends_when_the_worker_is_to_stop(
    old: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "requested", lambda: True)
    assert purge_briefly(old.runtime) == Removed(emails=1)


@pytest.mark.long
def test_of_two_tasks_at_once_one_has_nothing_to_do(old: Shop) -> None:
    with closing(purge(old.database, Retention.of_all(DAY))) as chunks:
        next(chunks)
        purge_briefly(old.runtime)
        assert left(old) == 4
    purge_briefly(old.runtime)
    assert left(old) == 0


def test_a_database_that_is_away_is_one_line(
    old: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as away, caplog.at_level(logging.WARNING, "outbox"):
        away.setattr(old.database, "run", _raise)
        purge_briefly(old.runtime)
    (record,) = caplog.records
    assert record.getMessage() == "outbox: the database failed in a purge (ConnectionError)"


def _raise(_: object) -> None:
    raise ConnectionError


def test_a_person_s_purge_waits_for_another_to_end(old: Shop) -> None:
    died = purge(old.database, Retention.of_all(DAY))
    next(died)
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        old.later(LEASE / 3 + 1)

    chunks = purge_all(old.runtime, older_than=DAY, pause=pause)
    assert sum(chunk.emails for chunk in chunks) == 4
    assert waits == [POLL] * 3
    died.close()


@pytest.mark.long
def test_a_person_s_purge_rests_while_emails_are_sent_and_only_then(old: Shop) -> None:
    waits: list[float] = []
    old.enqueue()
    made = old.started()
    old.runtime.clock = count(0.0, 0.5).__next__
    chunks = purge_all(old.runtime, older_than=DAY, pause=waits.append)
    assert next(filter(None, (chunk.emails for chunk in chunks))) == 1
    assert next(chunks) is not None
    assert waits == [REST * 0.5] * len(waits) != []
    old.database.run(lambda c: give_back(c, old.database, made.token))
    old.database.run(lambda c: lease.end(c, old.database, made.token))
    waits.clear()
    assert sum(chunk.emails for chunk in chunks) > 0
    assert waits == []


def test_a_person_s_purge_never_rests_for_longer_than_its_lease(old: Shop) -> None:
    waits: list[float] = []
    old.enqueue()
    old.started()
    old.runtime.clock = count(0.0, LEASE / REST).__next__  # a step takes as long
    next(chunks := purge_all(old.runtime, older_than=DAY, pause=waits.append))
    next(chunks)
    assert 0 < max(waits) < LEASE


def test_a_person_s_purge_that_has_lost_its_lease_takes_it_again(old: Shop) -> None:
    """However long it has worked before: it is as patient as at its beginning."""
    waits: list[float] = []
    ticks = count(0.0, 1.0)
    old.runtime.clock = ticks.__next__
    chunks = purge_all(old.runtime, older_than=DAY, pause=waits.append)
    first = next(chunks)
    old.later(LEASE + 1)
    with closing(purge(old.database, Retention.of_all(DAY))) as beats:
        assert next(beats).emails == 1
        old.runtime.clock = count(10 * LEASE).__next__
        old.later(LEASE + 1)  # and this one dies
        rest = list(chunks)
    assert first.emails + sum(chunk.emails for chunk in rest) == 4
    assert waits == [POLL]


def test_a_person_s_purge_does_not_wait_for_another_s_for_ever(old: Shop) -> None:
    other = purge(old.database, Retention.of_all(DAY))
    next(other)
    old.runtime.clock = count(0.0, LEASE).__next__
    with pytest.raises(PurgeUnderWay):
        list(purge_all(old.runtime, older_than=DAY, pause=lambda _: None))
    other.close()
