"""The leases' heartbeats: they renew while batches move, and fence the wire before one is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from sqlalchemy.exc import OperationalError

from outbox.store.connection.database import Database
from outbox.store.control import lease
from outbox.worker.leases.heartbeat import Heartbeat
from outbox.worker.leases.heartbeats import MOST_RENEWALS, Heartbeats
from tests.support.waiting import wait_until

TERM, PATIENCE, BEGAN = 30.0, 100.0, 1000.0
SECONDS = 30


class Clock:
    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> float:
        return self.now


class Beat:
    """Stands in for the Event that paces the thread: each beat is the test's own."""

    def __init__(self) -> None:
        self.beats = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        self.stopped = False
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.done.release()
        assert self.beats.acquire(timeout=SECONDS)
        return self.stopped

    def set(self) -> None:
        self.stopped = True
        self.beats.release()


class Table:
    """Answers renewals: what comes next is the test's choice."""

    def __init__(self) -> None:
        self.renewals: list[tuple[list[UUID], float]] = []
        self.answers: list[Callable[[], Collection[UUID] | None]] = []
        self.busy: set[UUID] = set()  # neither renewed nor lost

    def renew(
        self, database: Database, tokens: Sequence[UUID], *, lease_seconds: float
    ) -> lease.Renewal:
        self.renewals.append((list(tokens), lease_seconds))
        lost = frozenset(self.answers.pop(0)() or () if self.answers else ())
        held = frozenset(tokens) - lost - self.busy
        return lease.Renewal(held=held, lost=lost)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(lease, "renew", table.renew)
    return table


class Process:
    """A process whose beats the test gives."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.paces: list[Beat] = []  # of each thread in turn
        self.hearts = Heartbeats(
            cast(Any, lambda: None), term=lambda: TERM, clock=clock, pace=cast(Any, self._pace)
        )

    def _pace(self) -> Beat:
        self.paces.append(Beat())
        return self.paces[-1]

    def batch(self) -> Heartbeat:
        began = self.clock()
        return Heartbeat(
            self.hearts, uuid4(), term=TERM, patience=PATIENCE, began=began, clock=self.clock
        )

    def pulse(self, *, wait: bool = True) -> None:
        """Let one third of the term pass; `wait` until the beat is over."""
        pace, thread = self.paces[-1], self.hearts._thread
        assert thread is not None
        assert pace.done.acquire(timeout=SECONDS), "the thread waits for its beat"
        pace.beats.release()
        wait_until(lambda: pace.done._value or not thread.is_alive(), SECONDS, "it to have beaten")
        for beat in _beating() if wait else ():
            beat.join(SECONDS)
            assert not beat.is_alive()
        if wait and self.hearts._thread is None:
            thread.join(SECONDS)

    def renews(self, *batches: Heartbeat) -> bool:
        """Whether exactly these batches are renewed from now on, and the thread lives for them."""
        thread = self.hearts._thread
        assert (thread is not None and thread.is_alive()) == bool(self.hearts._hearts)
        return list(self.hearts._hearts) == list(batches)


def _beating() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "outbox-lease"]


@pytest.fixture
def process(clock: Clock, table: Table) -> Iterator[Process]:
    process = Process(clock)
    yield process
    assert not process.hearts._hearts
    for thread in threading.enumerate():
        if thread.name in ("outbox-lease", "outbox-leases"):
            thread.join(SECONDS)
            assert not thread.is_alive()


@pytest.fixture
def heart(process: Process) -> Iterator[Heartbeat]:
    with process.batch() as heart:
        yield heart


def away() -> None:
    raise OperationalError("UPDATE", {}, OSError("gone"))


def test_the_lease_holds_for_its_term_from_before_it_was_taken(
    heart: Heartbeat, clock: Clock
) -> None:
    assert heart.holds()
    clock.now = BEGAN + TERM - 0.001
    assert heart.holds()
    clock.now = BEGAN + TERM
    assert not heart.holds()


def test_it_beats_three_times_a_term(process: Process, heart: Heartbeat, table: Table) -> None:
    process.pulse()
    process.pulse()
    assert set(process.paces[0].waits) == {TERM / 3}
    assert table.renewals == [([heart.token], TERM)] * 2


def test_a_renewal_counts_from_before_it_was_sent(
    process: Process, heart: Heartbeat, clock: Clock, table: Table
) -> None:
    def slow() -> None:
        clock.now += 9

    clock.now = BEGAN + 10
    table.answers = [slow]
    process.pulse()
    clock.now = BEGAN + 10 + TERM - 0.001
    assert heart.holds()
    clock.now = BEGAN + 10 + TERM
    assert not heart.holds()


def test_a_renewal_that_answers_after_the_term_holds_nothing_by_that(
    process: Process, heart: Heartbeat, clock: Clock, table: Table
) -> None:
    def later_than_a_term() -> None:
        clock.now += TERM + 1

    clock.now = BEGAN + 10
    table.answers = [later_than_a_term]
    process.pulse()
    assert not heart.holds()


def test_a_lost_lease_fences_at_once_and_is_not_asked_for_again(
    process: Process, heart: Heartbeat, clock: Clock, table: Table
) -> None:
    clock.now = BEGAN + 10
    table.answers = [lambda: [heart.token]]
    process.pulse()
    assert not heart.holds()
    assert process.renews()
    assert len(table.renewals) == 1


def test_an_absent_database_moves_no_deadline_and_is_asked_again(
    process: Process,
    heart: Heartbeat,
    clock: Clock,
    table: Table,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table.answers = [away, away]
    clock.now = BEGAN + 10
    process.pulse()
    assert heart.holds()
    clock.now = BEGAN + 20
    process.pulse()
    clock.now = BEGAN + TERM
    assert not heart.holds()
    process.pulse()  # it is back: the lease may still be ours, and the table says so
    assert heart.holds()
    assert process.renews(heart)
    assert "1 lease was not renewed" in caplog.text
    assert "OSError" in caplog.text
    assert "UPDATE" not in caplog.text


def test_a_lease_that_somebody_holds_moves_no_deadline_and_is_asked_for_again(
    process: Process, heart: Heartbeat, clock: Clock, table: Table
) -> None:
    table.busy = {heart.token}
    clock.now = BEGAN + 10
    process.pulse()
    assert heart.holds()
    clock.now = BEGAN + TERM
    assert not heart.holds()
    assert process.renews(heart)
    table.busy.clear()
    process.pulse()
    assert heart.holds()


def test_a_batch_without_progress_is_renewed_for_its_patience_only(
    process: Process, heart: Heartbeat, clock: Clock, table: Table
) -> None:
    clock.now = BEGAN + PATIENCE
    process.pulse()
    assert len(table.renewals) == 1
    clock.now = BEGAN + PATIENCE + 0.001
    process.pulse()
    assert process.renews()
    assert len(table.renewals) == 1
    clock.now = BEGAN + PATIENCE + TERM
    assert not heart.holds()


def test_progress_gives_patience_anew(process: Process, heart: Heartbeat, clock: Clock) -> None:
    clock.now = BEGAN + PATIENCE
    heart.progress()
    clock.now = BEGAN + 2 * PATIENCE
    process.pulse()
    assert process.renews(heart)
    clock.now = BEGAN + 2 * PATIENCE + 0.001
    process.pulse()
    assert process.renews()


def test_it_ends_with_its_batch(process: Process, table: Table) -> None:
    with process.batch() as heart:
        assert process.renews(heart)
        thread = process.hearts._thread
    assert thread is not None
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert table.renewals == []


def test_it_ends_with_a_batch_that_fails(process: Process) -> None:
    thread = None

    def fail() -> None:
        nonlocal thread
        with process.batch():
            thread = process.hearts._thread
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    assert thread is not None
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert thread.daemon


def test_one_thread_and_one_statement_serve_all_batches(process: Process, table: Table) -> None:
    with ExitStack() as stack:
        batches = [stack.enter_context(process.batch()) for _ in range(40)]
        process.pulse()
        assert process.renews(*batches)
        assert len(process.paces) == 1
        assert table.renewals == [([heart.token for heart in batches], TERM)]


def test_the_thread_stays_until_the_last_batch_ends_and_another_batch_has_another_thread(
    process: Process, table: Table
) -> None:
    with process.batch() as first, process.batch() as second:
        with process.batch():
            pass
        process.pulse()
        assert table.renewals == [([first.token, second.token], TERM)]
    assert process.renews()
    with process.batch() as third:
        process.pulse()
    assert table.renewals[1:] == [([third.token], TERM)]
    assert len(process.paces) == 2


def test_each_batch_has_its_own_deadline_and_its_own_end(
    process: Process, clock: Clock, table: Table
) -> None:
    with process.batch() as lost, process.batch() as busy, process.batch() as hanging:
        clock.now = BEGAN + PATIENCE
        with process.batch() as held:
            for heart in (lost, busy):
                heart.progress()
            clock.now += 1
            table.answers, table.busy = [lambda: [lost.token]], {busy.token}
            process.pulse()
            assert table.renewals == [([lost.token, busy.token, held.token], TERM)]
            assert process.renews(busy, held)
            assert [one.holds() for one in (lost, busy, hanging, held)] == [False] * 3 + [True]
            process.pulse()
            assert table.renewals[1:] == [([busy.token, held.token], TERM)]
            clock.now += TERM
            assert not held.holds()


def test_each_batch_is_relieved_after_each_renewal_while_it_is_renewed(
    process: Process, clock: Clock, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    relieved: list[str] = []

    def fail() -> None:
        relieved.append("fails")
        raise ValueError("boom")

    with process.batch() as first, process.batch() as second, process.batch() as lost:
        first.relieve = fail
        second.relieve = lambda: relieved.append("second")
        lost.relieve = lambda: relieved.append("lost")
        table.answers = [away, lambda: [lost.token]]
        process.pulse()
        assert relieved == ["fails", "second", "lost"]
        process.pulse()
        assert relieved[3:] == ["fails", "second"]
        assert "waiting emails were not given back (ValueError" in caplog.text
        table.renewals.clear()
        process.pulse()
        assert table.renewals == [([first.token, second.token], TERM)]


def test_the_relief_of_a_batch_delays_no_renewal_of_another(
    process: Process, clock: Clock, table: Table
) -> None:
    hanging, goes_on = threading.Semaphore(0), threading.Event()

    def hang() -> None:
        hanging.release()
        assert goes_on.wait(SECONDS)

    with process.batch() as slow, process.batch() as other:
        slow.relieve = hang
        try:
            for number in range(1, MOST_RENEWALS + 3):
                clock.now += 10
                process.pulse(wait=False)
                assert hanging.acquire(timeout=SECONDS)
                assert len(table.renewals) == number
            clock.now += TERM - 0.001
            assert other.holds()
            assert slow.holds()
        finally:
            goes_on.set()


def test_a_statement_that_hangs_delays_no_other_and_its_answer_changes_nothing_then(
    process: Process, clock: Clock, table: Table
) -> None:
    hanging, goes_on = threading.Semaphore(0), threading.Event()

    def hang() -> None:
        hanging.release()
        assert goes_on.wait(SECONDS)

    with process.batch() as heart, process.batch() as lost:
        table.answers = [hang, lambda: [lost.token]]
        try:
            clock.now = BEGAN + 10
            process.pulse(wait=False)
            assert hanging.acquire(timeout=SECONDS)
            clock.now = BEGAN + 20
            process.pulse(wait=False)
            wait_until(lambda: process.renews(heart), SECONDS, "the second one's answer")
        finally:
            goes_on.set()
        for beat in _beating():
            beat.join(SECONDS)
        clock.now = BEGAN + 20 + TERM - 0.001
        assert heart.holds()
        clock.now = BEGAN + 19
        assert lost.holds()
        clock.now = BEGAN + 20
        assert not lost.holds(), "the first one found it, and the second one did not"


def test_no_more_statements_hang_than_a_term_has_beats(
    process: Process, heart: Heartbeat, table: Table
) -> None:
    hanging, goes_on = threading.Semaphore(0), threading.Event()

    def hang() -> None:
        hanging.release()
        assert goes_on.wait(SECONDS)

    table.answers = [hang] * (MOST_RENEWALS + 1)
    try:
        for _ in range(MOST_RENEWALS):
            process.pulse(wait=False)
            assert hanging.acquire(timeout=SECONDS)
        process.pulse(wait=False)
    finally:
        goes_on.set()
    for beat in _beating():
        beat.join(SECONDS)
    assert len(table.renewals) == MOST_RENEWALS
    table.answers.clear()
    process.pulse()
    assert len(table.renewals) == MOST_RENEWALS + 1


def test_where_no_thread_can_begin_the_beats_go_on(
    process: Process, heart: Heartbeat, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unstartable(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "Thread", Unstartable)
    process.pulse()
    process.pulse()
    assert len(table.renewals) == 2


def test_a_batch_whose_thread_cannot_begin_does_not_begin(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unstartable(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Thread", Unstartable)
        with pytest.raises(RuntimeError), process.batch():
            raise AssertionError("unreachable")
    with process.batch() as heart:
        assert process.renews(heart)


def test_the_child_of_a_fork_renews_its_own_batches_only(
    process: Process, heart: Heartbeat, table: Table
) -> None:
    """Its parent's thread is not there, and its lock may have been held."""
    with process.hearts._lock:
        child = os.fork()
        if child == 0:
            own = None
            try:
                process.hearts.after_fork()
                with process.batch() as own:
                    process.pulse()
            finally:
                os._exit(own is None or table.renewals != [([own.token], TERM)])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    process.pulse()
    assert table.renewals == [([heart.token], TERM)]
