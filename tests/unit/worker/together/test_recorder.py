"""Tasks of one process record together; each has its own outcome, whatever the others have."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from outbox.worker.together.recorder import MOST_EMAILS
from tests.support.shop.shop import sent
from tests.unit.worker.together.recording import SECONDS, Table, change, done, is_idle


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


def test_results_are_handed_over_with_what_opens_next(table: Table) -> None:
    mine = change(2, results=[sent(1)])
    assert mine.emails == {1, 2}
    assert table.recorder.write(mine).opened == {2}
