"""The lease's heartbeat: it renews while the batch moves, and fences the wire before it is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from sqlalchemy.exc import OperationalError

from outbox.store.connection.database import Database
from outbox.store.control import lease
from outbox.worker.batch.heartbeat import Heartbeat
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
        self.renewals: list[tuple[UUID, float]] = []
        self.answers: list[Callable[[], bool]] = []

    def renew(self, database: Database, token: UUID, *, lease_seconds: float) -> bool:
        self.renewals.append((token, lease_seconds))
        return self.answers.pop(0)() if self.answers else True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(lease, "renew", table.renew)
    return table


class Patient:
    """A heartbeat whose beats the test gives."""

    def __init__(self, clock: Clock) -> None:
        self.token = uuid4()
        self.beat = Beat()
        self.heart = Heartbeat(
            cast(Database, None),
            self.token,
            term=TERM,
            patience=PATIENCE,
            began=BEGAN,
            clock=clock,
        )
        self.heart._stopped = cast(Any, self.beat)

    def __enter__(self) -> Patient:
        self.heart.__enter__()
        assert self.beat.done.acquire(timeout=SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.heart.__exit__(None, None, None)

    def pulse(self) -> None:
        """Let one third of the term pass, and return when the thread waits again or has ended."""
        self.beat.beats.release()
        thread = self.heart._thread
        wait_until(
            lambda: self.beat.done.acquire(blocking=False) or not thread.is_alive(),
            SECONDS,
            "the heartbeat to have beaten",
        )

    @property
    def alive(self) -> bool:
        return self.heart._thread.is_alive()


@pytest.fixture
def patient(clock: Clock, table: Table) -> Iterator[Patient]:
    with Patient(clock) as patient:
        yield patient


def away() -> bool:
    raise OperationalError("UPDATE", {}, OSError("gone"))


def test_the_lease_holds_for_its_term_from_before_it_was_taken(
    patient: Patient, clock: Clock
) -> None:
    assert patient.heart.holds()
    clock.now = BEGAN + TERM - 0.001
    assert patient.heart.holds()
    clock.now = BEGAN + TERM
    assert not patient.heart.holds()


def test_it_beats_three_times_a_term(patient: Patient, table: Table) -> None:
    patient.pulse()
    patient.pulse()
    assert set(patient.beat.waits) == {TERM / 3}
    assert table.renewals == [(patient.token, TERM)] * 2


def test_a_renewal_counts_from_before_it_was_sent(
    patient: Patient, clock: Clock, table: Table
) -> None:
    def slow() -> bool:
        clock.now += 9
        return True

    clock.now = BEGAN + 10
    table.answers = [slow]
    patient.pulse()
    clock.now = BEGAN + 10 + TERM - 0.001
    assert patient.heart.holds()
    clock.now = BEGAN + 10 + TERM
    assert not patient.heart.holds()


def test_a_renewal_that_answers_after_the_term_holds_nothing_by_that(
    patient: Patient, clock: Clock, table: Table
) -> None:
    def later_than_a_term() -> bool:
        clock.now += TERM + 1
        return True

    clock.now = BEGAN + 10
    table.answers = [later_than_a_term]
    patient.pulse()
    assert not patient.heart.holds()


def test_a_lost_lease_fences_at_once_and_is_not_asked_for_again(
    patient: Patient, clock: Clock, table: Table
) -> None:
    clock.now = BEGAN + 10
    table.answers = [lambda: False]
    patient.pulse()
    assert not patient.heart.holds()
    assert not patient.alive
    assert len(table.renewals) == 1


def test_an_absent_database_moves_no_deadline_and_is_asked_again(
    patient: Patient, clock: Clock, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    table.answers = [away, away]
    clock.now = BEGAN + 10
    patient.pulse()
    assert patient.heart.holds()
    clock.now = BEGAN + 20
    patient.pulse()
    clock.now = BEGAN + TERM
    assert not patient.heart.holds()
    patient.pulse()  # it is back: the lease may still be ours, and the table says so
    assert patient.heart.holds()
    assert patient.alive
    assert "OSError" in caplog.text
    assert "UPDATE" not in caplog.text


def test_a_batch_without_progress_is_renewed_for_its_patience_only(
    patient: Patient, clock: Clock, table: Table
) -> None:
    clock.now = BEGAN + PATIENCE
    patient.pulse()
    assert len(table.renewals) == 1
    clock.now = BEGAN + PATIENCE + 0.001
    patient.pulse()
    assert not patient.alive
    assert len(table.renewals) == 1
    clock.now = BEGAN + PATIENCE + TERM
    assert not patient.heart.holds()


def test_progress_gives_patience_anew(patient: Patient, clock: Clock, table: Table) -> None:
    clock.now = BEGAN + PATIENCE
    patient.heart.progress()
    clock.now = BEGAN + 2 * PATIENCE
    patient.pulse()
    assert patient.alive
    clock.now = BEGAN + 2 * PATIENCE + 0.001
    patient.pulse()
    assert not patient.alive


def test_it_ends_with_its_batch(clock: Clock, table: Table) -> None:
    with Patient(clock) as patient:
        pass
    patient.heart._thread.join(SECONDS)
    assert not patient.alive
    assert table.renewals == []


def test_it_ends_with_a_batch_that_fails(clock: Clock, table: Table) -> None:
    patient = Patient(clock)

    def fail() -> None:
        with patient:
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    patient.heart._thread.join(SECONDS)
    assert not patient.alive
    assert patient.heart._thread.daemon
