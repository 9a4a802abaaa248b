"""The tasks of one process record with one statement, and each keeps its own outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from outbox.domain.delivery.status import Status
from outbox.store.records import EmailResult, WindowChange
from outbox.store.transitions.window import LOST
from outbox.worker.batch.batch_results import Results
from outbox.worker.together.recorder import Recorder
from tests.support.shop.schema import refusing
from tests.support.shop.shop import Shop, Shops, addresses, sent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql")

SECONDS = 60.0
NOBODY = UUID(int=0)
TASKS = 40


@dataclass
class Task:
    """A batch under way: its emails, of which the first is in the open window."""

    token: UUID
    ids: list[int]
    results: Results

    def note(self, *results: EmailResult) -> None:
        for one in results:
            self.results.add(one)


@dataclass
class Process:
    """A process that runs several tasks; they record when the test says so, and all together."""

    shop: Shop
    statements: list[str] = field(default_factory=list)
    _hold: threading.Event = field(default_factory=threading.Event)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(TASKS + 1))

    def __post_init__(self) -> None:
        self.shop.database.share(4)
        sa.event.listen(self.shop.engine, "before_cursor_execute", self._note)

    def tasks(self, count: int, emails: int = 2) -> list[Task]:
        """Start so many batches, each with an open window of one email."""
        for address in addresses(count * emails):
            self.shop.enqueue(address)
        started = []
        for _ in range(count):
            [made] = self.shop.claim(emails)
            batch = self.shop.start(made.token)
            assert batch is not None
            ids = [email.id for email in batch.emails]
            results = Results(self.shop.runtime, made.token, progress=bool, is_told=lambda: True)
            assert results.record_and_open(ids[:1]) == {ids[0]}
            started.append(Task(made.token, ids, results))
        self.statements.clear()
        return started

    def together(
        self,
        work: Sequence[tuple[Task, Sequence[int]]],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[Future[frozenset[int]]]:
        """Have each task record and open what follows, all at a time when another one leads."""
        recorder = self.shop.runtime.recorder
        with self._held():
            nothing = WindowChange(NOBODY, (), ())
            leader = self._pool.submit(recorder.write, nothing)
            wait_until(lambda: self.statements, SECONDS, "the leader's statement")
            done = []
            for task, following in work:
                done.append(self._pool.submit(task.results.record_and_open, following))
                wait_until(lambda: len(recorder._queue) == len(done), SECONDS, "it to queue")
            meanwhile()
            self.statements.clear()
        leader.exception(SECONDS)
        return done

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._hold.clear()
        self.statements.clear()
        try:
            yield
        finally:
            self._hold.set()

    def _note(self, conn: object, cursor: object, statement: str, *rest: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.statements.append(statement)
            assert self._hold.wait(SECONDS)

    def close(self) -> None:
        self._hold.set()
        self._pool.shutdown()


def not_together(change: object) -> Any:
    raise AssertionError(f"{change} was to be recorded alone")


@pytest.fixture
def process(shops: Shops) -> Iterator[Process]:
    process = Process(shops.open(OUTBOX_WINDOW=1))
    yield process
    process.close()


@pytest.mark.long
def test_forty_tasks_with_windows_of_one_email_record_with_one_statement(
    process: Process, record_property: Callable[[str, object], None]
) -> None:
    """Alone, each email costs a statement."""
    rounds = 3
    tasks = process.tasks(TASKS, rounds + 1)
    most = 0
    for turn in range(rounds):
        for task in tasks:
            task.note(sent(task.ids[turn]))
        done = process.together([(task, [task.ids[turn + 1]]) for task in tasks])
        opened = [future.result(SECONDS) for future in done]
        assert opened == [{task.ids[turn + 1]} for task in tasks]
        most = max(most, len(process.statements))
    assert most == 1
    record_property("figures", f"window 1, {TASKS} tasks: {most} statement for {TASKS} emails")
    assert process.shop.statuses().count(Status.SENT) == TASKS * rounds
    assert process.shop.statuses().count(Status.SENDING) == TASKS
    assert process.shop.count(process.shop.tables.attempt) == TASKS * rounds
    assert {task.results.settled for task in tasks} == {rounds}
    assert not any(task.results.waiting for task in tasks)


def test_a_task_whose_lease_was_lost_changes_nothing_and_the_others_go_on(
    process: Process,
) -> None:
    shop = process.shop
    lost, held = process.tasks(2)
    with shop.engine.begin() as connection:  # as a rescue and a new claim leave it
        email = shop.tables.email
        mine = sa.update(email).where(email.c.id.in_(lost.ids)).values(token=held.token)
        connection.execute(mine)
    for task in (lost, held):
        task.note(sent(task.ids[0]))
    done = process.together([(task, task.ids[1:]) for task in (lost, held)])
    assert [future.result(SECONDS) for future in done] == [frozenset(), {held.ids[1]}]
    assert shop.status(lost.ids[0]) is Status.SENDING
    assert shop.status(lost.ids[1]) is Status.CLAIMED
    assert shop.email_row(lost.ids[0]).attempts == 0
    assert shop.status(held.ids[0]) is Status.SENT
    assert shop.counter(LOST) == 1
    assert [row.email_id for row in shop.rows(shop.tables.attempt)] == [held.ids[0]]


def test_a_row_that_a_person_holds_is_left_and_its_task_then_records_alone(
    process: Process,
) -> None:
    shop = process.shop
    first, second, third = tasks = process.tasks(3, 3)
    email = shop.tables.email.c
    for task in tasks:
        task.note(sent(task.ids[0]))
    with shop.session() as session:
        rows = sa.select(email.id).where(email.id.in_([first.ids[0], third.ids[1]]))
        session.execute(rows.with_for_update())
        done = process.together([(task, [task.ids[1]]) for task in tasks])
        opened = [future.result(SECONDS) for future in done]
        assert opened == [{first.ids[1]}, {second.ids[1]}, frozenset()]
        assert [one.email_id for one in first.results.waiting] == [first.ids[0]]
        assert not second.results.waiting
        assert not third.results.waiting
        assert shop.status(second.ids[0]) is Status.SENT
        first.note(sent(first.ids[1]))
        first.results._together = not_together  # the others would meet the lock, too
        first.results.record()
        assert [one.email_id for one in first.results.waiting] == [first.ids[0]]
        session.rollback()
    first.results.record()
    assert not first.results.waiting
    assert [shop.status(task.ids[0]) for task in tasks] == [Status.SENT] * 3
    assert shop.count(shop.tables.attempt) == 4
    assert shop.rows(shop.tables.counter) == []


def test_a_value_that_the_database_refuses_harms_no_other_task(process: Process) -> None:
    shop = process.shop
    bad, good = process.tasks(2)
    result = sent(bad.ids[0])
    reply = replace(result.outcome.reply, text="queued \0")
    bad.note(replace(result, outcome=replace(result.outcome, reply=reply)))
    good.note(sent(good.ids[0]))
    done = process.together([(task, task.ids[1:]) for task in (bad, good)])
    assert [future.result(SECONDS) for future in done] == [{bad.ids[1]}, {good.ids[1]}]
    texts = {row.email_id: row.reply for row in shop.rows(shop.tables.attempt)}
    assert texts == {bad.ids[0]: "", good.ids[0]: "queued as 1"}
    assert [shop.status(task.ids[0]) for task in (bad, good)] == [Status.SENT] * 2


def test_a_row_that_the_database_refuses_to_change_harms_no_other_task(process: Process) -> None:
    shop = process.shop
    bad, good = process.tasks(2)
    for task in (bad, good):
        task.note(sent(task.ids[0]))
    with refusing(shop.engine, "outbox_email", f"OLD.id = {bad.ids[0]}"):
        done = process.together([(task, task.ids[1:]) for task in (bad, good)])
        assert done[1].result(SECONDS) == {good.ids[1]}
        assert done[0].exception(SECONDS) is not None
    assert [shop.status(task.ids[0]) for task in (bad, good)] == [Status.SENDING, Status.SENT]


def test_connections_that_are_cut_lose_no_result_and_record_none_twice(process: Process) -> None:
    shop = process.shop
    tasks = process.tasks(3)
    for task in tasks:
        task.note(sent(task.ids[0]))

    def cut() -> None:
        others = sa.create_engine(shop.engine.url, poolclass=sa.NullPool)
        with others.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    done = process.together([(task, task.ids[1:]) for task in tasks], meanwhile=cut)
    assert [future.result(SECONDS) for future in done] == [{task.ids[1]} for task in tasks]
    assert shop.statuses().count(Status.SENT) == 3
    assert {row.attempts for row in shop.rows(shop.tables.email)} == {0, 1}
    assert shop.count(shop.tables.attempt) == 3
    assert shop.rows(shop.tables.counter) == []


def test_what_has_failed_once_is_repeated_alone(process: Process) -> None:
    """Whatever is wrong with it, the others meet it once."""
    [task] = process.tasks(1)
    task.note(sent(task.ids[0]))
    tries: list[object] = []

    def fail(change: object) -> Any:
        tries.append(change)
        raise OperationalError("UPDATE", {}, OSError())

    task.results._together = fail
    assert task.results.record_and_open(task.ids[1:]) == {task.ids[1]}
    assert len(tries) == 1
    assert process.shop.status(task.ids[0]) is Status.SENT


def test_an_email_that_was_withdrawn_or_has_expired_is_not_opened(process: Process) -> None:
    shop = process.shop
    first, second = process.tasks(2)
    email = shop.tables.email
    with shop.session() as session:
        assert shop.outbox.cancel(id=first.ids[1], session=session) == 1
        session.commit()
    with shop.engine.begin() as connection:
        past = sa.update(email).where(email.c.id == second.ids[1])
        connection.execute(past.values(expires_at=email.c.created_at))
    for task in (first, second):
        task.note(sent(task.ids[0]))
    done = process.together([(task, task.ids[1:]) for task in (first, second)])
    assert [future.result(SECONDS) for future in done] == [frozenset(), frozenset()]
    assert shop.status(first.ids[1]) is Status.CANCELLED
    assert shop.status(second.ids[1]) is Status.CLAIMED


def test_only_where_several_tasks_run_in_a_process_they_record_together(shops: Shops) -> None:
    shop = shops.open()
    ids = [shop.enqueue(address).id for address in addresses(1)]
    [made] = shop.claim()
    assert shop.start(made.token) is not None
    shop.runtime.recorder = Recorder(not_together)
    results = Results(shop.runtime, made.token, progress=bool, is_told=lambda: True)
    assert results.record_and_open(ids) == set(ids)
