"""Another transaction holds the mark of health: a watch ends soon, and nobody goes untold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn, TypeVar

import pytest
import sqlalchemy as sa
from flask import Flask

from outbox import RowsLocked, outbox_health_changed
from outbox.store.control.counter import HEALTH
from outbox.store.control.health_mark import turn
from tests.integration.table_locks import locked
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop

Result = TypeVar("Result")
PATIENCE = 60.0

pytestmark = pytest.mark.databases("postgresql", "mariadb")


def in_time(work: Callable[[], Result]) -> Result:
    """Do it in a thread of its own: where it waits without end, the test fails."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(PATIENCE)
    finally:
        pool.shutdown(wait=False)  # it may wait for what the test holds


@contextmanager
def held(shop: Shop) -> Iterator[None]:
    """Have another transaction hold the mark."""
    mark = shop.tables.counter
    with shop.engine.connect() as other:
        other.execute(sa.select(mark).where(mark.c.name == HEALTH).with_for_update()).one()
        yield


@pytest.fixture
def late(shop: Shop) -> Shop:
    """An outbox that was watched, and then was healthy, and is no longer."""
    shop.enqueue()
    shop.later(301)
    shop.outbox.watch()
    turn(shop.database, healthy=True)
    return shop


def test_that_the_outbox_is_unhealthy_is_told_once_and_once_more_when_it_is_kept(
    late: Shop,
) -> None:
    with held(late):
        assert [late.outbox.watch() is None for _ in range(2)] == [False, True]
    assert [late.outbox.watch() is None for _ in range(2)] == [False, True]


@pytest.mark.long
def test_that_the_outbox_is_healthy_again_is_told_once_and_later(late: Shop) -> None:
    late.outbox.watch()
    late.outbox.cancel_now(1)
    with held(late):
        assert [late.outbox.watch() is None for _ in range(2)] == [True, True]
    assert [late.outbox.watch() is None for _ in range(2)] == [False, True]


def test_a_command_that_fails_is_told_and_that_nothing_is_noted(late: Shop) -> None:
    with ExitStack() as ends:

        def locks(app: Flask, **told: Any) -> None:
            ends.enter_context(held(late))

        with outbox_health_changed.connected_to(locks):
            output = runner(late)("watch", "--", "/no/such/program", code=1).output
        with pytest.raises(RowsLocked):
            late.outbox.watch_again(late.outbox.health())
    assert "/no/such/program failed (FileNotFoundError)" in output
    assert "the database keeps no note of it now (RowsLocked)" in output


def test_what_ends_the_process_does_so(late: Shop) -> None:
    with ExitStack() as stack:

        def ends(app: Flask, **told: Any) -> NoReturn:
            stack.enter_context(held(late))
            raise SystemExit(3)

        with outbox_health_changed.connected_to(ends), pytest.raises(SystemExit):
            late.outbox.watch()


def test_nobody_waits_for_long_for_the_first_mark_of_another_one(shop: Shop) -> None:
    with shop.engine.connect() as other:
        other.execute(sa.insert(shop.tables.counter).values(name=HEALTH, value=1))
        with pytest.raises(RowsLocked):
            turn(shop.database, healthy=False)
    assert turn(shop.database, healthy=False)


@pytest.mark.databases("postgresql")
def test_a_locked_table_is_waited_for_no_longer_than_a_locked_row(late: Shop) -> None:
    with locked(late, table="outbox_counter"):
        told = in_time(late.outbox.watch)
        assert told is not None
        in_time(lambda: late.outbox.watch_again(told))  # the memory of this process had it
        with pytest.raises(RowsLocked):
            in_time(lambda: late.outbox.watch_again(told))
    assert late.outbox.watch() is not None
