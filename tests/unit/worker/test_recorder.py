"""Tasks of one process record together; each has its own outcome, whatever the others have."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.records import Advanced, EmailResult, WindowChange
from outbox.worker.process import recorder as module
from outbox.worker.process.recorder import MOST_EMAILS, Recorder
from tests.support.shop.shop import entry, sent
from tests.support.waiting import wait_until

SECONDS = 30.0


def change(*ids: int, results: Sequence[EmailResult] = ()) -> WindowChange:
    """Return a change that opens these emails."""
    return WindowChange(UUID(int=(*ids, 0)[0]), tuple(results), ids)


def done(one: WindowChange) -> Advanced:
    return Advanced(frozenset(one.following), frozenset())


class Table:
    """What the changes are written to; it notes each write, and holds or fails those it is told."""

    def __init__(self) -> None:
        self.recorder = Recorder(self.write)
        self.writes: list[list[int]] = []  # the emails of each, in order
        self.fails: Callable[[list[int]], BaseException | None] = lambda _: None
        self.open = threading.Event()
        self.held: Callable[[list[int]], bool] = lambda _: False
        self._pool = ThreadPoolExecutor(100)

    def write(self, changes: Sequence[WindowChange]) -> list[Advanced]:
        ids = [email_id for one in changes for email_id in one.following]
        self.writes.append(ids)
        if self.held(ids):
            assert self.open.wait(SECONDS)
        if error := self.fails(ids):
            raise error
        return [done(one) for one in changes]

    def start(self, one: WindowChange) -> Future[Advanced]:
        """Write a change beside the others; return once it is being written, or queues."""
        before = self.seen
        future = self._pool.submit(self.recorder.write, one)
        wait_until(lambda: self.seen > before, SECONDS, "the change to be written or to queue")
        return future

    @property
    def seen(self) -> int:
        return len(self.writes) + len(self.recorder._queue)

    def lead(self) -> Future[Advanced]:
        """Have a task lead, and hold its write."""
        self.held = lambda ids: ids == [1]
        return self.start(change(1))

    def close(self) -> None:
        self.open.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def table() -> Iterator[Table]:
    table = Table()
    yield table
    table.close()


def is_idle(table: Table) -> bool:
    return table.recorder._leader is None and not table.recorder._queue


def test_a_lone_task_writes_at_once(table: Table) -> None:
    assert table.recorder.write(change(1)) == done(change(1))
    assert table.recorder.write(change(2, 3)) == done(change(2, 3))
    assert table.writes == [[1], [2, 3]]
    assert is_idle(table)


def test_all_who_come_during_a_write_are_written_together_in_their_order(table: Table) -> None:
    first = table.lead()
    others = [change(number, number + 100) for number in range(2, 42)]
    futures = [table.start(one) for one in others]
    assert table.writes == [[1]]
    table.open.set()
    assert first.result(SECONDS) == done(change(1))
    assert [future.result(SECONDS) for future in futures] == list(map(done, others))
    assert table.writes == [[1], [email_id for one in others for email_id in one.following]]
    assert is_idle(table)


def test_a_statement_stays_short(table: Table) -> None:
    first = table.lead()
    half = MOST_EMAILS // 2
    others = [change(*range(n * 1000, n * 1000 + half)) for n in range(1, 6)]
    futures = [table.start(one) for one in others]
    table.open.set()
    for future in (first, *futures):
        future.result(SECONDS)
    assert [len(ids) for ids in table.writes] == [1, 2 * half, 2 * half, half]
    assert [ids[0] for ids in table.writes[1:]] == [1000, 3000, 5000]


def test_no_email_is_twice_in_one_statement(table: Table) -> None:
    """Its lease was lost and another task of the same process has it now."""
    table.lead()
    futures = [table.start(one) for one in (change(2), change(2, 3), change(4))]
    table.open.set()
    for future in futures:
        future.result(SECONDS)
    assert table.writes == [[1], [2], [2, 3, 4]]


def test_what_fails_together_is_repeated_one_by_one_and_each_has_its_own_outcome(
    table: Table,
) -> None:
    table.lead()
    table.fails = lambda ids: ValueError("a bad value") if 3 in ids else None
    others = [change(number) for number in (2, 3, 4)]
    futures = [table.start(one) for one in others]
    table.open.set()
    assert futures[0].result(SECONDS) == done(others[0])
    with pytest.raises(ValueError, match="a bad value"):
        futures[1].result(SECONDS)
    assert futures[2].result(SECONDS) == done(others[2])
    assert table.writes[:2] == [[1], [2, 3, 4]]
    assert sorted(table.writes[2:]) == [[2], [3], [4]]
    assert is_idle(table)


def test_a_lone_task_has_its_own_error(table: Table) -> None:
    table.fails = lambda _: ValueError("a bad value")
    with pytest.raises(ValueError, match="a bad value"):
        table.recorder.write(change(1))
    assert table.writes == [[1]]
    assert is_idle(table)


@pytest.mark.parametrize("death", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_leader_that_is_ended_leaves_nobody_behind(
    table: Table, death: type[BaseException]
) -> None:
    """Neither those whose changes it took along, nor those that queue behind it."""
    table.fails = lambda ids: death() if ids == [1] or len(ids) > 2 else None
    first = table.lead()
    group = [table.start(change(number)) for number in (2, 3, 4)]
    table.open.set()
    with pytest.raises(death):
        first.result(SECONDS)
    with pytest.raises(death):  # it led the second statement
        group[0].result(SECONDS)
    for number, future in zip((3, 4), group[1:], strict=True):
        assert future.result(SECONDS) == done(change(number))
    assert sorted(table.writes) == [[1], [2, 3, 4], [3], [4]]
    assert is_idle(table)


class Turn:
    """A call's lock, whose time-out passes when the test says so, and not before."""

    def __init__(self, is_over: threading.Event) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._is_over = is_over
        self.release = self._lock.release

    def acquire(self, timeout: float) -> bool:
        while not self._lock.acquire(timeout=0.001):
            if self._is_over.is_set():
                return False
        return True


@pytest.fixture
def patience_ends(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, whoever waits in vain sees its time-out pass."""
    is_over = threading.Event()

    class Call(module._Call):
        def __init__(self, change: WindowChange) -> None:
            super().__init__(change)
            self.turn: Any = Turn(is_over)

    monkeypatch.setattr(module, "_Call", Call)
    return is_over


def test_a_change_that_closes_a_window_unsent_is_made_alone(
    table: Table, patience_ends: threading.Event
) -> None:
    """If its first copy came late, it could close the same email's next window."""
    first = table.lead()
    back = entry(7, Outcome(status=Status.CLAIMED, reply=Reply(code=0)), Verdict.UNSENT)
    alone = table.start(change(5, results=[back]))
    assert alone.result(SECONDS) == done(change(5))
    assert not patience_ends.is_set()
    assert not first.done()
    assert table.writes == [[1], [5]]


def test_a_leader_that_hangs_is_replaced(table: Table, patience_ends: threading.Event) -> None:
    hung = table.lead()
    waiting = [table.start(change(number)) for number in (2, 3)]
    patience_ends.set()
    for number, future in zip((2, 3), waiting, strict=True):
        assert future.result(SECONDS) == done(change(number))
    assert table.recorder.write(change(4)) == done(change(4))
    assert list(map(sorted, table.writes)) == [[1], [2, 3], [4]]
    assert not hung.done()
    table.open.set()
    assert hung.result(SECONDS) == done(change(1))
    assert is_idle(table)


def test_a_task_whose_change_was_taken_along_by_a_leader_that_hangs_writes_it_itself(
    table: Table, patience_ends: threading.Event
) -> None:
    first = table.lead()
    leader, taken = table.start(change(2)), table.start(change(3))
    let_go, table.open = table.open, threading.Event()
    table.held = lambda ids: ids == [2, 3]
    let_go.set()
    assert first.result(SECONDS) == done(change(1))
    wait_until(lambda: [2, 3] in table.writes, SECONDS, "both to be written together")
    patience_ends.set()
    assert taken.result(SECONDS) == done(change(3))
    assert not leader.done()
    table.open.set()
    assert leader.result(SECONDS) == done(change(2))
    assert table.writes == [[1], [2, 3], [3]]
    assert is_idle(table)


def test_the_child_of_a_fork_waits_for_nobody_of_its_parent(table: Table) -> None:
    table.lead()
    table.recorder.after_fork()
    assert table.recorder.write(change(2)) == done(change(2))


def test_each_of_many_threads_gets_its_own_outcome(table: Table) -> None:
    def work(number: int) -> None:
        for turn in range(50):
            mine = change(number * 1000 + turn)
            assert table.recorder.write(mine) == done(mine)

    with ThreadPoolExecutor(16) as pool:
        for future in [pool.submit(work, number) for number in range(16)]:
            future.result(SECONDS)
    written = [email_id for ids in table.writes for email_id in ids]
    assert sorted(written) == sorted(n * 1000 + turn for n in range(16) for turn in range(50))
    assert is_idle(table)


KILLED = """
from gevent import monkey; monkey.patch_all()
import gevent
from gevent.event import Event
from uuid import UUID
from outbox.store.records import Advanced, WindowChange
from outbox.worker.process.recorder import Recorder

writes, gate, second = [], Event(), Event()

def write(changes):
    ids = [i for one in changes for i in one.following]
    writes.append(ids)
    if ids == [1]:
        gate.wait()
    elif len(ids) > 1:
        second.wait()
    return [Advanced(frozenset(one.following), frozenset()) for one in changes]

recorder, opened = Recorder(write), []

def task(number):
    opened.extend(recorder.write(WindowChange(UUID(int=number), (), (number,))).opened)

tasks = [gevent.spawn(task, number) for number in range(1, 8)]
gevent.sleep(0)
tasks[2].kill()             # 3 is ended while it queues
tasks[1].kill(block=False)  # 2 is ended when its turn to lead has come, before it knows of that
gate.set()
while len(writes) < 2:
    gevent.sleep(0)
tasks[4].kill()             # 5 is ended while its change is being written
tasks[3].kill()             # 4 is ended while it leads
gevent.joinall(tasks, timeout=30)
print(writes, sorted(opened), recorder._leader, len(recorder._queue))
"""


def test_a_greenlet_that_is_ended_leaves_nobody_behind() -> None:
    pytest.importorskip("gevent", reason="the oldest packages are tried without it")
    root = Path(__file__).parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", KILLED],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        check=True,
    )
    assert ran.stdout.strip() == "[[1], [4, 5, 6, 7], [6], [7]] [1, 6, 7] None 0"


def test_results_are_handed_over_with_what_opens_next(table: Table) -> None:
    mine = change(2, results=[sent(1)])
    assert mine.emails == {1, 2}
    assert table.recorder.write(mine).opened == {2}
