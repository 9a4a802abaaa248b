"""Marks of beat and of tasks are left alike in PostgreSQL's one statement and in steps.

So is a worker's row renewed, with the marks that its tasks have earned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from outbox.domain.fleet import LIVING, ProcessId
from outbox.store.backend import backend_of
from outbox.store.connection.database import Database
from outbox.store.control import beat, fleet
from outbox.store.control.beat import TASK_EVERY, Told
from outbox.store.control.counter import BEAT, TASK
from outbox.store.control.fleet import Living
from tests.integration.store.queries.plans.generic_plans import statements
from tests.integration.twins import NOW, Twins, at, examples
from tests.support.shop.fleet import row

pytestmark = pytest.mark.databases("postgresql")

EVERY = int(TASK_EVERY)


@pytest.mark.parametrize("ago", [0, 1, EVERY - 1, EVERY, EVERY + 1, 3600, -1, -3600])
def test_a_mark_is_replaced_alike_whatever_its_age(twins: Twins, ago: int) -> None:
    assert backend_of(twins.shop.database.dialect).renew_mark is not None
    assert backend_of(twins.portable.dialect).renew_mark is None
    now = int(NOW.timestamp())
    left = now - ago if 0 <= ago < EVERY else now
    mark = {"name": TASK, "value": now - ago}
    (_, own), (_, other) = twins.both(beat.note_task, counter=[mark])
    assert own["counter"] == other["counter"] == [(TASK, left)]


def test_the_first_mark_is_left_alike(twins: Twins) -> None:
    (_, own), (_, other) = twins.both(beat.note_task)
    assert own["counter"] == other["counter"] == [(TASK, int(NOW.timestamp()))]


@pytest.mark.parametrize("ago", [0, 3600])
def test_it_is_one_statement_whether_the_mark_is_old_or_not(twins: Twins, ago: int) -> None:
    twins.fill(counter=[{"name": TASK, "value": int(NOW.timestamp()) - ago}])
    beat.note_task(twins.shop.database)  # opens the connection
    twins.fill(counter=[{"name": TASK, "value": int(NOW.timestamp()) - ago}])
    assert len(statements(twins.shop, lambda shop: beat.note_task(shop.database))) == 1


WORKER = UUID(int=1)
SEEN = {"seen_at": at(-10), "started_at": at(-100), "stopped_at": None}
CHANGES = {"queues": "outbox.normal", "concurrency": 5, "slots": 4, "tasks": 1}


def renewed(database: Database, told: Sequence[Told] = ()) -> list[Living] | None:
    found = fleet.renew_and_look(database, WORKER, CHANGES, told)
    return found and sorted(found, key=lambda one: one.process.pid)


def worker(number: int, **values: Any) -> dict[str, Any]:
    return row(f"celery@{number}", id=UUID(int=number), pid=number, **{**SEEN, **values})


@pytest.mark.long
@given(st.data())
@examples(60)
def test_a_worker_is_renewed_and_its_marks_are_left_alike(
    twins: Twins, data: st.DataObject
) -> None:
    ages, agos = st.integers(-200, 200), st.floats(0, 200)
    names = st.sampled_from([BEAT, TASK])
    marks = data.draw(st.dictionaries(names, ages, max_size=2), "the ages of the marks")
    earned = data.draw(st.dictionaries(names, agos, max_size=2), "earned so many seconds ago")
    others = data.draw(st.lists(st.sampled_from(sorted(OTHERS)), max_size=3), "other workers")
    is_there = data.draw(st.booleans(), "the row is there")
    rows = [worker(9 + n, **OTHERS[name]) for n, name in enumerate(others)]
    rows += [worker(1)] if is_there else []
    values = [{"name": n, "value": int(NOW.timestamp()) - age} for n, age in marks.items()]
    told = [(name, ago, EVERY) for name, ago in earned.items()]
    (mine, own), (theirs, other) = twins.both(
        partial(renewed, told=told), counter=values, worker=rows
    )
    assert mine == theirs
    assert own == other
    if is_there:
        assert mine is not None
        assert mine[0] == Living(slots=4, process=ProcessId("", 1, 0))


OTHERS: dict[str, dict[str, Any]] = {
    "lives": {},
    "dead": {"seen_at": at(-LIVING - 1)},
    "just living": {"seen_at": at(-LIVING)},
    "of a clock ahead": {"seen_at": at(LIVING + 1)},
    "stopped": {"stopped_at": at(-5)},
}


def test_a_locked_mark_keeps_no_row_from_its_renewal(twins: Twins) -> None:
    mark = {"name": TASK, "value": 0}
    twins.fill(counter=[mark], worker=[worker(1)])
    counter = twins.shop.tables.counter
    with twins.shop.engine.begin() as other:
        other.execute(select(counter).with_for_update())
        assert renewed(twins.shop.database, [(TASK, 0.0, EVERY)])
    assert twins.shop.rows(twins.shop.tables.worker)[0].seen_at == NOW
    assert twins.shop.rows(counter)[0].value == 0
