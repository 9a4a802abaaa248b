"""The mark of beat's tasks: one a minute over all processes, and nobody waits for it."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from outbox.store.control import beat, counter
from outbox.store.control.beat import EVERY, TASK_EVERY
from outbox.store.scrape import scrape
from outbox.worker.beat_mark import note_beat, note_task
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database

HOUR = 3600.0


def age(shop: Shop) -> float | None:
    return shop.database.read(lambda connection: beat.age(connection, shop.database))


def note(shop: Shop) -> None:
    beat.note(shop.database)


def test_a_mark_is_left_once_a_minute_and_is_no_counter(shop: Shop) -> None:
    assert age(shop) is None
    note(shop)
    shop.later(EVERY - 10)
    note(shop)
    assert (age(shop) or 0) >= EVERY - 11, "the first mark was young"
    shop.later(12)
    note(shop)
    assert (age(shop) or 0) < EVERY - 11, "the first mark was old"
    assert shop.database.read(lambda c: counter.read(c, shop.database)) == {}


def test_a_mark_of_a_clock_that_was_ahead_hides_no_beat_that_is_missing(shop: Shop) -> None:
    shop.later(HOUR)
    note(shop)
    shop.later(-HOUR)
    found = shop.database.read(lambda c: scrape(c, shop.database)).beat_seconds
    for seconds in (age(shop), found):
        assert HOUR - EVERY < (seconds or 0) <= HOUR
    note(shop)
    assert (age(shop) or 0) < EVERY, "the next task of beat replaces it"


@pytest.mark.databases("postgresql", "mariadb")
def test_a_mark_that_somebody_holds_is_passed_over(shop: Shop) -> None:
    note(shop)
    shop.later(EVERY + 1)
    table = shop.tables.counter
    with shop.engine.begin() as other:
        other.execute(select(table).where(table.c.name == counter.BEAT).with_for_update())
        note(shop)
    assert (age(shop) or 0) >= EVERY


def test_a_process_asks_the_database_once_a_minute(shops: Shops) -> None:
    shop = shops.open()
    now = 1000.0
    shop.runtime.clock = lambda: now
    note_beat(shop.runtime)
    shop.later(10 * EVERY)
    note_beat(shop.runtime)
    assert (age(shop) or 0) >= 10 * EVERY - 1
    now += EVERY
    note_beat(shop.runtime)
    assert (age(shop) or 0) < EVERY


def test_any_task_leaves_a_mark_every_few_seconds(shops: Shops) -> None:
    shop = shops.open()
    now = 1000.0
    shop.runtime.clock = lambda: now

    def task_age() -> float | None:
        return shop.database.read(lambda connection: beat.ages(connection, shop.database))[1]

    assert task_age() is None
    note_task(shop.runtime)
    shop.later(2 * TASK_EVERY)
    note_task(shop.runtime)
    assert (task_age() or 0) >= 2 * TASK_EVERY - 1, "this process looked just now"
    now += TASK_EVERY
    note_task(shop.runtime)
    assert (task_age() or 0) < TASK_EVERY
    assert age(shop) is None, "it is no mark of beat"
