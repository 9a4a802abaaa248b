"""A leader that is ended, or hangs, while it records for other tasks leaves nobody behind."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.records import WindowChange
from outbox.worker.together import recorder as module
from tests.support.greenlets import printed_by
from tests.support.shop.shop import entry
from tests.support.waiting import wait_until
from tests.unit.worker.together.recording import SECONDS, Table, Turn, change, done, is_idle


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


KILLED = """
import gevent
from gevent.event import Event
from uuid import UUID
from outbox.store.records import Advanced, WindowChange
from outbox.worker.together.recorder import Recorder

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


@pytest.mark.long
def test_a_greenlet_that_is_ended_leaves_nobody_behind() -> None:
    assert printed_by(KILLED) == "[[1], [4, 5, 6, 7], [6], [7]] [1, 6, 7] None 0"
