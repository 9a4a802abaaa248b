"""Tasks that record with one statement leave what each leaves alone, on the same rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.status import Status
from outbox.store.postgresql import window
from outbox.store.postgresql.window_statement import past_others
from outbox.store.records import Advanced, EmailResult, WindowChange, WriteResult
from outbox.store.transitions.window import advance, advance_together
from tests.integration.store.twins.test_twins import results
from tests.integration.twins import Rows, Twins, at, content, email, examples, lease
from tests.support.shop.shop import WORKER, sent

pytestmark = pytest.mark.databases("postgresql")

TASKS = tuple(UUID(int=number) for number in range(1, 4))
NOBODY = UUID(int=9)
RUNNING = [lease(token) for token in (*TASKS, NOBODY)]


@dataclass(frozen=True)
class Brought:
    """An email's row, the task that brings it, its result or None, and whether it opens next."""

    row: dict[str, Any]
    task: UUID
    result: EmailResult | None
    follows: bool


@st.composite
def brought(draw: st.DrawFn, number: int) -> Brought:
    task = draw(st.sampled_from(TASKS))
    status = draw(st.sampled_from([Status.SENDING] * 6 + [Status.CLAIMED] * 6 + list(Status)))
    row = email(
        number,
        status,
        token=draw(st.sampled_from([task] * 5 + [*TASKS, NOBODY])),  # or its lease was lost
        due_at=at(draw(st.sampled_from([-10, 10]))),
        send_at=draw(st.sampled_from([None, at(-50)])),
        expires_at=draw(st.sampled_from([None, at(0), at(60), at(-60)])),
        unknown_token=draw(st.sampled_from([None, task])) if status is Status.PENDING else None,
        unknown_count=draw(st.integers(0, 2)),
        waited=draw(st.integers(0, 5)),
        lane=draw(st.sampled_from(["", "a@x.example"])),
    )
    result = draw(st.none() | results(number))
    return Brought(row, task, result, result is None and draw(st.booleans()))


def changes_of(emails: list[Brought]) -> list[WindowChange]:
    """Return what each task has to write; one may have nothing."""
    return [
        WindowChange(
            task,
            tuple(one.result for one in emails if one.task == task and one.result is not None),
            tuple(one.row["id"] for one in emails if one.task == task and one.follows),
        )
        for task in TASKS
    ]


def alone(twins: Twins, changes: list[WindowChange]) -> list[WriteResult]:
    database = twins.shop.database
    return [advance(database, c.token, c.results, c.following, worker=WORKER) for c in changes]


def together(twins: Twins, changes: list[WindowChange]) -> list[WriteResult]:
    """Do as the tasks of a process: one statement for all, and each then sees to its own rest."""
    database, results = twins.shop.database, []
    found = advance_together(database, changes, worker=WORKER)
    done = dict(zip(changes, found, strict=True))
    for change in changes:
        own = partial(advance, database, change.token, change.results, change.following)
        results.append(own(worker=WORKER, together=done.__getitem__))
    return results


def past_locks(twins: Twins, changes: list[WindowChange]) -> list[WriteResult]:
    """Do the same with the statement that comes after one that met a locked row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "in_a_hurry", past_others)
        return together(twins, changes)


def summed(twins: Twins, rows: Rows) -> tuple[Rows, Counter[tuple[Any, ...]]]:
    """Return the rows with the attempts of all tallies of one key together, as they are folded."""
    names = [column.name for column in twins.shop.tables.tally.c if column.name != "id"]
    place, attempts = names.index("attempts"), Counter[tuple[Any, ...]]()
    for row in rows["tally"]:
        attempts[row[:place] + row[place + 1 :]] += row[place]
    return {name: found for name, found in rows.items() if name != "tally"}, attempts


@pytest.mark.long
@examples(120)
@given(data=st.data())
def test_the_windows_of_several_tasks_leave_what_they_leave_alone(
    twins: Twins, data: st.DataObject
) -> None:
    emails = [data.draw(brought(number)) for number in range(1, data.draw(st.integers(2, 9)))]
    changes = changes_of(emails)
    (results, rows), *others = twins.each(
        [partial(way, twins, changes) for way in (alone, together, past_locks)],
        content=[content()],
        email=[one.row for one in emails],
        lease=RUNNING,
    )
    for results_there, rows_there in others:
        assert results_there == results
        assert summed(twins, rows_there) == summed(twins, rows)


def test_a_result_is_written_only_by_the_task_whose_token_its_email_has(twins: Twins) -> None:
    """Though another task in the same statement has that token."""
    first, second, _ = TASKS
    emails = [email(1, Status.SENDING, token=second), email(2, Status.SENDING, token=second)]
    twins.fill(content=[content()], email=emails, lease=RUNNING)
    changes = [WindowChange(first, (sent(1),), (2,)), WindowChange(second, (), ())]
    database = twins.shop.database
    lost, other = advance_together(database, changes, worker=WORKER)
    assert lost == Advanced(opened=frozenset(), missing=frozenset({1}))
    assert other == Advanced(opened=frozenset(), missing=frozenset())
    assert twins.shop.statuses() == ["sending", "sending"]
    assert twins.shop.count(twins.shop.tables.attempt) == 0
