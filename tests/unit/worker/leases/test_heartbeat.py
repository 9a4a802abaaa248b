"""A lease's heartbeat: it renews while its batch moves, and fences the wire before it is lost."""

from __future__ import annotations

import pytest

from outbox.worker.leases.heartbeat import Heartbeat
from tests.unit.worker.leases.beating import (
    BEGAN,
    PATIENCE,
    SECONDS,
    TERM,
    Clock,
    Process,
    Table,
    away,
)


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


def test_the_log_is_told_of_an_error_as_often_as_the_process_tells_of_it(
    process: Process, heart: Heartbeat, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """A read-only database refuses each renewal, of each batch."""
    asked = list[str]()

    def tells(what: str) -> bool:
        asked.append(what)
        return len(asked) == 1

    process.hearts._tells = tells
    table.answers = [away, away]
    process.pulse()
    process.pulse()
    assert caplog.text.count("not renewed") == 1
    assert len(asked) == 2
    assert heart.holds()


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
