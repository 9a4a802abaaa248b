"""Real workers and a beat write themselves down, and the slots follow them as they come and go."""

from __future__ import annotations

import pytest

from outbox import WorkerDetails, WorkerState
from outbox.worker.fleet.inquiry import OURS
from tests.support.system.app import outbox
from tests.support.system.system import WINDOW, System
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.one_broker("redis"), pytest.mark.one_database("postgresql")]

POOLS = {"prefork": 2, "threads": 3, "gevent": 4, "solo": 1}
QUICK = 0.3
"""Seconds from beat to beat of a worker, in place of ten."""


@pytest.fixture
def settings() -> dict[str, object]:
    return {"WORKER_BEATS": QUICK, "OUTBOX_SLOTS": None, "OUTBOX_BATCH": WINDOW}


def row_of(pid: int) -> list[WorkerDetails]:
    """Return what stands in the table of the worker or beat with this process id."""
    found = outbox.workers()
    return [one for one in (*found.workers, *found.beats) if one.pid == pid]


def seen(pid: int) -> WorkerDetails:
    [found] = wait_until(lambda: row_of(pid), 30, "the row")
    return found


def state(pid: int) -> WorkerState:
    return seen(pid).state


@pytest.mark.long
@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_of_each_pool_writes_itself_down_until_it_stops(system: System, pool: str) -> None:
    process = system.worker("--queues", ",".join(OURS), concurrency=POOLS[pool], pool=pool)
    found = seen(pid := process.pid)
    assert found.state.is_living
    assert found.pool.startswith(pool.removesuffix("s"))
    assert (found.concurrency, set(found.queues)) == (POOLS[pool], set(OURS))
    assert outbox.workers().slots == POOLS[pool]
    wait_until(lambda: seen(pid).seen_at > found.seen_at, 30, "its next renewal")
    process.terminate()
    process.wait_exit(60)
    assert state(pid) is WorkerState.STOPPED
    assert outbox.workers().living == ()


@pytest.mark.long
def test_slots_follow_the_workers_that_start_stop_and_die(system: System) -> None:
    gate = system.catcher.hold_at("reply")
    system.newsletter(20 * WINDOW)
    first = system.worker(concurrency=1)
    wait_until(lambda: gate.reached == 1, 60, "its only process has a batch")
    second = system.worker("--autoscale", "3,1", concurrency=1)
    wait_until(lambda: outbox.workers().slots == 4, 30, "the slots of both")
    system.sweep()
    wait_until(lambda: gate.reached == 4, 60, "each of four processes has a batch")
    pids = first.pid, second.pid
    # A worker that was seen no more after another's start may have made way for it.
    wait_until(lambda: seen(pids[0]).seen_at > seen(pids[1]).started_at, 30, "its beat beside it")
    first.kill_9()
    wait_until(lambda: state(pids[0]) is WorkerState.DEAD, 30, "its death, which this host knows")
    dead, fleet = seen(pids[0]), outbox.workers()
    assert any(dead.name in text for text in fleet.problems), fleet
    gate.open()
    second.terminate()
    second.wait_exit(60)
    assert state(pids[1]) is WorkerState.STOPPED


@pytest.mark.long
def test_workers_with_different_settings_are_told_apart(system: System) -> None:
    same = system.worker()
    system.config["OUTBOX_LEASE"] = 9.0
    other = system.worker()
    assert (seen(same.pid).differing, seen(other.pid).differing) == ((), ("OUTBOX_LEASE",))
    [told] = outbox.workers().problems
    assert told.startswith(
        f"{seen(other.pid).name} has other settings than this process: OUTBOX_LEASE"
    )


@pytest.mark.long
def test_a_beat_writes_itself_down_until_it_stops_and_a_killed_one_is_missed(
    system: System,
) -> None:
    first, second = system.beat(), system.beat()
    pids = first.pid, second.pid
    assert all(seen(pid).state.is_living for pid in pids)
    first.stop()
    assert state(pids[0]) is WorkerState.STOPPED
    assert outbox.workers().problems == ()
    second.kill_9()
    wait_until(
        lambda: "is dead: it was seen" in " ".join(outbox.workers().problems),
        30,
        "the second one's death",
    )
