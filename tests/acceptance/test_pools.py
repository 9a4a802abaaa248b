"""Each of Celery's pools, with what renews its processes: SIGTERM in the midst, then the rest."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from sqlalchemy import select

from outbox import Status
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher, CaughtMail, Gate
from tests.support.system.system import DEADLINE, WINDOW, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("redis")]

READERS = 60 * WINDOW
MIDST = READERS // 3
TASKS = 4

POOLS = {
    "prefork": ("--autoscale=4,1", "--max-tasks-per-child=4"),
    "prefork, memory": ("--max-memory-per-child=1",),  # KiB: each task is its process's last one
    "threads": (),
    "threads, windows of one": (),  # its tasks record together
    "gevent": ("--autoscale=6,2",),
    "solo": (),
}


@dataclass
class Midst:
    """Lets a number of emails pass, and holds every session that comes after them."""

    catcher: Catcher
    left: int
    gate: Gate | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, _: CaughtMail) -> None:
        with self._lock:
            self.left -= 1
            if self.left == 0:
                self.gate = self.catcher.hold_at("content")

    @property
    def reached(self) -> bool:
        return self.gate is not None and self.gate.reached > 0


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("case", POOLS)
def test_each_email_leaves_once_though_sigterm_comes_in_the_midst(
    database_url: str, broker: Broker, catcher: Catcher, case: str
) -> None:
    settings = {"OUTBOX_SLOTS": TASKS, "OUTBOX_LEASE": 60.0}
    if case == "threads, windows of one":
        settings["OUTBOX_WINDOW"] = 1
    with running(database_url, broker, catcher, **settings) as system:
        pool, options = case.partition(",")[0], POOLS[case]
        midst = catcher.reply_to_content = Midst(catcher, MIDST)
        readers = system.newsletter(READERS)
        worker = system.worker(*options, concurrency=TASKS, pool=pool)
        wait_until(lambda: midst.reached, DEADLINE, lambda: f"the midst: {system.stats()}")
        worker.terminate()
        assert midst.gate is not None
        midst.gate.open()
        worker.wait_exit(DEADLINE)
        # What was claimed and not begun may wait in the broker, for the next worker.
        _is_settled(system, Status.SENT, Status.PENDING, Status.CLAIMED)
        assert MIDST <= system.counts()[Status.SENT] < READERS
        worker = system.worker(*options, concurrency=TASKS, pool=pool)
        system.sweep()
        system.wait_sent(READERS)
        copies = {recipient: number for (recipient, _), number in catcher.copies().items()}
        assert copies == dict.fromkeys(readers, 1)
        email = system.runtime.tables.email.c
        each = select(email.attempts, email.crashes).distinct()
        charged = system.runtime.database.read(lambda c: c.execute(each).all())
        assert [tuple(row) for row in charged] == [(1, 0)]
        worker.stop()
        _is_settled(system, Status.SENT)
        assert system.stats().batches_in_flight == 0
        assert "outbox: " not in worker.printed(), "a warning of an option"
        assert catcher.sessions <= _most_sessions(case)


@pytest.mark.databases("postgresql")
def test_a_worker_of_threads_that_is_killed_leaves_one_email_of_each_task_in_doubt(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    """With windows of one email, though its tasks record together."""
    with running(database_url, broker, catcher, OUTBOX_SLOTS=TASKS, OUTBOX_WINDOW=1) as system:
        midst = catcher.reply_to_content = Midst(catcher, MIDST)
        readers = system.newsletter(READERS)
        worker = system.worker(concurrency=TASKS, pool="threads")
        wait_until(
            lambda: midst.gate is not None and midst.gate.reached == TASKS,
            DEADLINE,
            lambda: f"every task in the midst of an email: {system.stats()}",
        )
        worker.kill_9()
        assert midst.gate is not None
        midst.gate.open()
        assert system.counts()[Status.SENDING] == TASKS
        system.worker(concurrency=TASKS, pool="threads")
        system.beat()
        system.wait_sent(READERS)
        copies = {recipient: number for (recipient, _), number in catcher.copies().items()}
        assert set(copies) == set(readers)
        assert set(copies.values()) <= {1, 2}
        assert sum(number == 2 for number in copies.values()) <= TASKS


def _is_settled(system: System, *allowed: Status) -> None:
    """Assert that nothing is in doubt, and that each session has ended with QUIT."""
    assert set(system.counts()) <= set(allowed)
    assert system.counters() == {}
    catcher = system.catcher
    wait_until(lambda: not catcher.open_sessions, DEADLINE, "the server to see the end")
    assert catcher.quits == catcher.sessions


def _most_sessions(case: str) -> int:
    """Return how many connections may be made: one for each task that runs beside others.

    A process that ends takes its connection along, and the next one makes its own.
    """
    if case == "prefork, memory":
        return READERS // WINDOW + 2 * TASKS
    if case == "prefork":
        return READERS // WINDOW
    return 2 * max(TASKS, 6)
