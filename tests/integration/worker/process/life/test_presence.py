"""A process keeps its row in the table of the workers, and nothing about that can hold it up."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Row, delete, event, text

from outbox.store.control import beat
from outbox.store.control.counter import BEAT, TASK
from outbox.worker.beat_mark import note_task
from outbox.worker.fleet.presence import FAREWELL, Presence
from outbox.worker.sweep import sweep
from tests.support.shop.fleet import row
from tests.support.shop.shop import Shop, Shops
from tests.support.waiting import wait_until

pytestmark = pytest.mark.each_database

EVERY = 0.02
VARIABLE = ("queues", "concurrency", "slots", "tasks")


@dataclass
class Member:
    """A worker of so many slots."""

    slots: int = 3
    well: bool = True
    children_ids: tuple[int, ...] = ()

    def row(self) -> dict[str, Any]:
        return {key: value for key, value in row("a").items() if key not in VARIABLE}

    def changes(self) -> Mapping[str, Any]:
        return {"queues": "outbox.normal", "concurrency": 3, "slots": self.slots, "tasks": 0}

    def is_well(self) -> bool:
        return self.well

    def children(self) -> Iterable[int]:
        return self.children_ids


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    """Ends what a test has started."""
    with ExitStack() as stack:
        yield stack


def begun(shop: Shop, ends: ExitStack, member: Member | None = None) -> Presence:
    presence = Presence(shop.runtime, member or Member(), every=EVERY)
    presence.start()
    ends.callback(presence.end)
    return presence


def the_row(shop: Shop) -> Row[Any] | None:
    return next(iter(shop.rows(shop.tables.worker)), None)


def has_row(shop: Shop) -> Row[Any]:
    wait_until(lambda: the_row(shop) is not None, 10, "the row")
    [found] = shop.rows(shop.tables.worker)
    return found


def renewed(shop: Shop) -> None:
    before = has_row(shop).seen_at
    wait_until(lambda: has_row(shop).seen_at > before, 10, "a renewal")


@contextmanager
def locked(shop: Shop) -> Iterator[None]:
    """Lock the table of the workers, as a migration may."""
    with shop.engine.begin() as other:
        other.execute(text("LOCK TABLE outbox_worker IN ACCESS EXCLUSIVE MODE"))
        yield


def test_the_row_is_written_at_once_renewed_and_says_when_the_process_stops(
    shop: Shop, ends: ExitStack
) -> None:
    presence = begun(shop, ends)
    first = has_row(shop)
    assert (first.name, first.slots, first.stopped_at) == ("a", 3, None)
    wait_until(lambda: has_row(shop).seen_at > first.seen_at, 10, "a renewal")
    presence.end()
    last = has_row(shop)
    assert last.id == first.id
    assert last.stopped_at is not None


def test_a_row_that_was_removed_is_written_again(shop: Shop, ends: ExitStack) -> None:
    begun(shop, ends)
    has_row(shop)
    shop.database.run(lambda c: c.execute(delete(shop.tables.worker)))
    assert has_row(shop).slots == 3


def test_what_changes_is_written_with_the_next_renewal(shop: Shop, ends: ExitStack) -> None:
    member = Member()
    begun(shop, ends, member)
    has_row(shop)
    member.slots = 5
    wait_until(lambda: has_row(shop).slots == 5, 10, "the larger pool")


def test_a_process_that_does_not_work_writes_nothing(shop: Shop, ends: ExitStack) -> None:
    member = Member(well=False)
    presence = begun(shop, ends, member)
    presence.end()
    assert the_row(shop) is None


def test_the_processes_of_a_worker_know_the_slots_of_all(shop: Shop, ends: ExitStack) -> None:
    shop.runtime.slots.share(1)  # before the pool forks
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        wait_until(lambda: shop.runtime.slots() > 1, 30, "the number")
        os.write(writes, str(shop.runtime.slots()).encode())
        os._exit(0)
    begun(shop, ends)
    begun(shop, ends, Member(slots=4))
    wait_until(lambda: shop.count(shop.tables.worker) == 2, 10, "both rows")
    assert int(os.read(reads, 10)) in (3, 4, 7), "as they were when it looked"
    os.waitpid(child, 0)
    wait_until(lambda: shop.runtime.slots() == 7, 10, "the slots of both")


@pytest.mark.databases("sqlite")
def test_an_outage_is_one_line_in_the_log_and_the_row_comes_back(
    shop: Shop, ends: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> int:
        return caplog.text.count("the row of this process was not written (")

    shop.tables.worker.drop(shop.engine)
    begun(shop, ends)
    wait_until(lines, 10, "the line")
    shop.tables.worker.create(shop.engine)
    has_row(shop)
    for _ in range(2):  # the first renewal belongs to the thread's turn that has written the row
        renewed(shop)
    assert lines() == 1
    shop.tables.worker.drop(shop.engine)
    wait_until(lambda: lines() == 2, 10, "a line for the second outage")
    shop.tables.worker.create(shop.engine)


@pytest.mark.databases("sqlite")
def test_slots_that_could_not_be_freed_are_told_as_such(
    shop: Shop, ends: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    child = subprocess.Popen(["sleep", "600"])
    ends.callback(child.wait)
    ends.callback(child.kill)
    begun(shop, ends, Member(children_ids=(child.pid,)))
    has_row(shop)
    shop.tables.lease.drop(shop.engine)
    child.kill()
    child.wait()
    told = "the slots of processes that have ended were not freed ("
    wait_until(lambda: told in caplog.text, 10, "the line")
    assert "row of this process" not in caplog.text
    shop.tables.worker.drop(shop.engine)
    told = "the row of this process was not written ("
    wait_until(lambda: told in caplog.text, 10, "the line of the other thing that fails")
    shop.tables.worker.create(shop.engine)
    shop.tables.lease.create(shop.engine)


@pytest.mark.databases("sqlite")
def test_a_process_that_can_start_no_thread_goes_on_without_a_row_and_says_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    presence = Presence(shop.runtime, Member(), every=EVERY)
    with monkeypatch.context() as host:
        host.setattr(threading.Thread, "start", refuse)  # a double: no limit holds for root
        presence.start()
    presence.end()
    assert the_row(shop) is None
    assert "cannot write itself down: no thread can be started" in caplog.text


@pytest.mark.databases("postgresql")
def test_a_beat_with_the_marks_of_its_tasks_is_one_statement_without_a_commit(
    shop: Shop, ends: ExitStack
) -> None:
    asked: list[str] = []
    shop.runtime.last_tasks.share()
    note_task(shop.runtime)  # makes the mark
    presence = Presence(shop.runtime, Member(), every=EVERY)
    event.listen(presence._engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
    event.listen(presence._engine, "commit", lambda _: asked.append("COMMIT"))
    presence.start()
    ends.callback(presence.end)

    def renewals() -> list[str]:
        """Return what came after the row was entered, and after the look for the dead."""
        if shop.runtime.last_tasks.tell(TASK):
            assert task_mark(shop) is not None
        last = max((at for at, what in enumerate(asked) if what == "COMMIT"), default=0)
        return [what.split()[0] for what in asked[last + 1 :]]

    wait_until(lambda: len(renewals()) >= 4, 10, "some renewals without a commit")
    assert set(renewals()) == {"WITH"}


def task_mark(shop: Shop) -> float | None:
    return shop.database.read(lambda connection: beat.ages(connection, shop.database))[1]


@pytest.mark.long
def test_what_the_processes_of_a_worker_tell_is_marked_with_its_row(
    shop: Shop, ends: ExitStack
) -> None:
    marks: list[tuple[float | None, float | None]] = []

    def are_marked() -> bool:
        marks[:] = [shop.database.read(lambda connection: beat.ages(connection, shop.database))]
        return None not in marks[0]

    shop.runtime.last_tasks.share()  # before the pool forks
    begun(shop, ends)
    wait_until(lambda: shop.runtime.last_tasks.tell(TASK), 10, "the parent carries marks")
    assert not shop.runtime.last_tasks.tell(BEAT), "the first one is to be seen at once"
    if not (child := os.fork()):
        told = [shop.runtime.last_tasks.tell(name) for name in (TASK, BEAT)]
        os._exit(0 if all(told) else 1)
    assert os.waitpid(child, 0)[1] == 0
    wait_until(are_marked, 10, "both marks")
    assert len(shop.rows(shop.tables.counter)) == 2


@pytest.mark.databases("sqlite")
def test_a_worker_whose_row_cannot_be_written_leaves_its_marks_by_its_tasks(
    shop: Shop, ends: ExitStack
) -> None:
    shop.runtime.last_tasks.share()
    note_task(shop.runtime)
    assert task_mark(shop) is not None, "no parent carries it yet"
    presence = begun(shop, ends)
    wait_until(lambda: shop.runtime.last_tasks.tell(TASK), 10, "the parent carries marks")
    shop.tables.worker.drop(shop.engine)
    wait_until(lambda: not shop.runtime.last_tasks.tell(TASK), 10, "the parent no longer does")
    shop.tables.worker.create(shop.engine)
    wait_until(lambda: shop.runtime.last_tasks.tell(TASK), 10, "it does again")
    presence.end()
    assert not shop.runtime.last_tasks.tell(TASK)


@pytest.mark.databases("postgresql")
def test_a_locked_table_holds_up_neither_start_nor_sweeps_and_the_end_only_for_a_moment(
    shops: Shops, ends: ExitStack
) -> None:
    shop = shops.open()
    shop.enqueue()
    shop.runtime.slots.share(2)
    with locked(shop):
        began = time.monotonic()
        presence = begun(shop, ends)
        assert sweep(shop.runtime, lambda claim: None) == 1
        assert time.monotonic() - began < FAREWELL
        presence.end()
        assert time.monotonic() - began < FAREWELL + 2
    wait_until(
        lambda: has_row(shop).stopped_at is not None, 10, "the end, once it could be written"
    )
