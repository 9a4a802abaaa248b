"""A process is killed, and its host knows: no slot waits for the dead one's lease."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.system.system import WINDOW, System
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.one_broker("redis"),
    pytest.mark.one_database("postgresql"),
]

LONG = 600.0
"""Seconds of a lease, for which no test waits."""


@pytest.fixture
def settings() -> dict[str, object]:
    return {"WORKER_BEATS": 0.3, "OUTBOX_LEASE": LONG, "OUTBOX_BATCH": WINDOW}


def two(pids: set[int]) -> set[int]:
    """Return them if they are two, and else none."""
    return pids if len(pids) == 2 else set()


def holders(system: System) -> set[int]:
    """Return the process ids of the batches whose leases hold."""
    lease, database = system.runtime.tables.lease.c, system.runtime.database
    held = select(lease.pid).where(lease.expires_at > database.now(), lease.pid.is_not(None))
    found: Any = database.read(lambda connection: connection.execute(held).scalars().all())
    return set(found)


def test_while_a_child_is_dead_the_others_and_its_successor_go_on(system: System) -> None:
    gate = system.catcher.hold_at("reply")
    system.newsletter(10 * WINDOW)
    worker = system.worker(concurrency=2)
    system.beat()
    wait_until(lambda: gate.reached == 2, 60, "each of two processes has a batch")
    children = {member.pid for member in worker.processes()} - {worker.pid}
    wait_until(lambda: holders(system) == children, 60, "the leases name their processes")
    victim = min(children)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: gate.reached == 3, 60, "its successor has a batch, though two are in flight")
    assert children - {victim} <= holders(system)
    assert system.counters().get("leases_rescued", 0) == 0, "and its emails are not judged yet"


def test_a_killed_worker_s_batches_are_given_up_by_another_worker_of_its_host(
    system: System,
) -> None:
    gate = system.catcher.hold_at("reply")
    system.newsletter(10 * WINDOW)
    first = system.worker(concurrency=2)
    system.sweep()
    dead = wait_until(lambda: two(holders(system)), 60, "each of its processes has a batch")
    system.worker(concurrency=1)
    first.kill_9()
    system.beat()
    wait_until(lambda: gate.reached == 3, 60, "the other worker has a batch")
    wait_until(lambda: dead.isdisjoint(holders(system)), 60, "the dead hold no slot")


def test_a_worker_that_starts_finds_what_a_whole_host_has_left(system: System) -> None:
    system.catcher.hold_at("reply")
    system.newsletter(10 * WINDOW)
    first = system.worker(concurrency=2)
    system.sweep()
    dead = wait_until(lambda: two(holders(system)), 60, "each of its processes has a batch")
    first.kill_9()
    assert dead == holders(system)
    system.worker(concurrency=1)
    wait_until(lambda: dead.isdisjoint(holders(system)), 60, "the dead hold no slot")
