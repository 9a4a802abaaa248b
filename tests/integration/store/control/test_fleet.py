"""The rows of the workers: what each writes of itself, and whose slots count."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import pytest

from outbox.domain.fleet import KEPT, LIVING
from outbox.store.control import fleet
from outbox.store.control.fleet import WorkerRow
from outbox.worker.purge import purge_briefly
from tests.support.shop.fleet import row, written
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


def slots(shop: Shop) -> int:
    return shop.database.read(lambda c: fleet.living_slots(c, shop.database))


def read(shop: Shop) -> tuple[WorkerRow, ...]:
    return shop.database.read(lambda c: fleet.workers(c, shop.database))


def known(shop: Shop) -> dict[str, WorkerRow]:
    return {worker.name: worker for worker in read(shop)}


def renew(shop: Shop, worker: UUID, **changes: Any) -> bool:
    return shop.database.run(lambda c: fleet.renew(c, shop.database, worker, changes))


def leave(shop: Shop, worker: UUID) -> None:
    shop.database.run(lambda c: fleet.leave(c, shop.database, worker))


def test_a_worker_reads_as_it_wrote_itself_down(shop: Shop) -> None:
    given = row("a", queues="outbox.sweep outbox.normal", settings='{"OUTBOX_LEASE": "1f"}')
    written(shop, given)
    found = known(shop)["a"]
    assert found.queues == ("outbox.sweep", "outbox.normal")
    assert found.settings == {"OUTBOX_LEASE": "1f"}
    same = ("host", "boot", "pid", "process_start", "pool", "concurrency", "slots", "version")
    assert {name: getattr(found, name) for name in same} == {name: given[name] for name in same}
    assert abs(found.started_seconds - found.seen_seconds) < 1.0
    assert found.stopped_at is None
    assert 0.0 <= found.seen_seconds < LIVING


def test_slots_are_those_of_the_workers_that_were_seen_and_did_not_stop(shop: Shop) -> None:
    assert slots(shop) == 0
    first = written(shop, row("a", slots=2))
    second = written(shop, row("b", slots=3))
    written(shop, row("sweeps only", slots=0))
    assert slots(shop) == 5
    shop.later(LIVING - 5)
    assert renew(shop, first, tasks=1)
    shop.later(10)
    assert slots(shop) == 2, "the second one was not seen"
    assert renew(shop, second, slots=4)
    assert slots(shop) == 6, "it is back, and larger"
    leave(shop, second)
    assert slots(shop) == 2
    assert known(shop)["b"].stopped_at is not None


def test_of_who_died_again_and_again_the_last_rows_are_read_and_nobody_else_is_missing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(shop, row("died once"))
    for pid in range(fleet.OF_A_NAME + 3):
        shop.later(LIVING + 1)
        written(shop, row("dies again and again", pid=pid))
    shop.later(LIVING + 1)
    for pid in range(fleet.OF_A_NAME + 3):
        written(shop, row("lives in many containers", pid=pid))
    found = Counter(worker.name for worker in read(shop))
    assert found == {
        "died once": 1,
        "dies again and again": fleet.OF_A_NAME,
        "lives in many containers": fleet.OF_A_NAME + 3,
    }
    pids = [worker.pid for worker in read(shop) if worker.name == "dies again and again"]
    assert pids == list(range(fleet.OF_A_NAME + 2, 2, -1)), "the last ones, the very last first"
    monkeypatch.setattr(fleet, "MOST", fleet.OF_A_NAME + 5)
    assert [worker.name for worker in read(shop)][-2:] == ["dies again and again"] * 2


def test_a_row_of_the_future_is_no_living_worker(shop: Shop) -> None:
    worker = written(shop, row("a", slots=2))
    shop.later(-LIVING - 5)  # another host has taken over as the database
    assert slots(shop) == 0
    assert known(shop)["a"].seen_seconds > LIVING, "nor do people see one"
    assert renew(shop, worker)
    assert known(shop)["a"].seen_seconds < LIVING


def test_a_row_that_is_gone_is_told_to_its_worker(shop: Shop) -> None:
    assert not renew(shop, uuid4(), tasks=1)
    assert known(shop) == {}


def test_the_purge_removes_a_worker_that_was_not_seen_for_a_day(shop: Shop) -> None:
    old, stopped = written(shop, row("a")), written(shop, row("b"))
    leave(shop, stopped)
    shop.later(KEPT - 60)
    purge_briefly(shop.runtime)
    assert known(shop).keys() == {"a", "b"}
    renew(shop, old, tasks=0)
    shop.later(120)
    purge_briefly(shop.runtime)
    assert known(shop).keys() == {"a"}
