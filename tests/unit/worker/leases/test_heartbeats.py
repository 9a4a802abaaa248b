"""The heartbeats of a process: one thread and one statement, and no batch holds another up."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack

import pytest

from outbox.worker.leases.heartbeat import Heartbeat
from outbox.worker.leases.heartbeats import MOST_RENEWALS
from tests.support.waiting import wait_until
from tests.unit.worker.leases.beating import (
    BEGAN,
    PATIENCE,
    SECONDS,
    TERM,
    Clock,
    Hanging,
    Process,
    Table,
    away,
    beating,
)


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


def test_a_batch_is_renewed_but_not_relieved_where_the_process_stood_still(
    process: Process, clock: Clock, table: Table
) -> None:
    """The replies may be here, and no thread has read them yet: no server is to blame."""
    relieved: list[float] = []
    with process.batch() as heart:
        heart.relieve = lambda: relieved.append(clock())
        for seconds in (TERM / 3, TERM - 1, TERM / 3):
            process.waits()
            clock.now += seconds
            process.pulse()
    assert relieved == [BEGAN + TERM / 3, BEGAN + TERM / 3 + TERM - 1 + TERM / 3]
    assert len(table.renewals) == 3


def test_the_relief_of_a_batch_delays_no_renewal_of_another(
    process: Process, clock: Clock, table: Table
) -> None:
    with process.batch() as slow, process.batch() as other, Hanging() as relief:
        slow.relieve = relief
        for number in range(1, MOST_RENEWALS + 3):
            clock.now += 10
            process.pulse(wait=False)
            assert relief.hangs()
            assert len(table.renewals) == number
        clock.now += TERM - 0.001
        assert other.holds()
        assert slow.holds()


def test_a_statement_that_hangs_delays_no_other_and_its_answer_changes_nothing_then(
    process: Process, clock: Clock, table: Table
) -> None:
    with process.batch() as heart, process.batch() as lost:
        with Hanging() as first:
            table.answers = [first, lambda: [lost.token]]
            clock.now = BEGAN + 10
            process.pulse(wait=False)
            assert first.hangs()
            clock.now = BEGAN + 20
            process.pulse(wait=False)
            wait_until(lambda: process.renews(heart), SECONDS, "the second one's answer")
        for beat in beating():
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
    with Hanging() as statement:
        table.answers = [statement] * (MOST_RENEWALS + 1)
        for _ in range(MOST_RENEWALS):
            process.pulse(wait=False)
            assert statement.hangs()
        process.pulse(wait=False)
    for beat in beating():
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


def test_the_thread_runs_before_the_first_batch_is_added_and_until_the_block_ends(
    process: Process, table: Table
) -> None:
    with process.hearts.running():
        thread = process.hearts._thread
        assert thread is not None
        with process.batch() as heart:
            process.pulse()
        assert table.renewals == [([heart.token], TERM)]
        assert process.hearts._thread is thread
    thread.join(SECONDS)
    assert not thread.is_alive()
