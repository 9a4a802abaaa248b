"""Marks of beat and of tasks are left alike in PostgreSQL's one statement and in steps."""

from __future__ import annotations

import pytest

from outbox.store.backend import backend_of
from outbox.store.control import beat
from outbox.store.control.beat import TASK_EVERY
from outbox.store.control.counter import TASK
from tests.integration.store.queries.generic_plans import statements
from tests.integration.twins import NOW, Twins

pytestmark = pytest.mark.one_database("postgresql")

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
