"""The tallies are summed up exactly once, whoever dies, whoever is late, and however many do it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.domain.figures.spans import HOUR, MINUTE, TOTAL
from outbox.store.backend import backend_of
from outbox.store.control import counter
from outbox.store.rollup import fold as folding
from outbox.store.rollup.fold import EVERY, fold
from outbox.worker.fold import IDLE_EVERY, fold_tallies
from outbox.worker.tasks import sweep_and_send
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.watching.recount import counted

pytestmark = pytest.mark.each_database

PATIENCE = 20.0
KEY = {
    "minute": 29_000_001, "server": "mx.example:25", "route": "", "priority": 1,
    "verdict": "sent", "code": 250, "bin": 5,
}  # fmt: skip


def append(connection: sa.Connection, shop: Shop, attempts: int = 1, **changes: object) -> None:
    """Append a tally as a worker does."""
    connection.execute(sa.insert(shop.tables.tally).values(attempts=attempts, **KEY | changes))


def tallied(shop: Shop, *numbers: int, **changes: object) -> None:
    with shop.engine.begin() as connection:
        for attempts in numbers:
            append(connection, shop, attempts, **changes)


def sums(shop: Shop) -> dict[int, int]:
    """Return the sum of each span, over all keys."""
    spans: dict[int, int] = {}
    for row in shop.rows(shop.tables.stat):
        spans[row.span] = spans.get(row.span, 0) + row.attempts
    return spans


def all_of(attempts: int) -> dict[int, int]:
    return dict.fromkeys((TOTAL, MINUTE, HOUR), attempts)


def again(shop: Shop) -> bool:
    """Fold when enough time has passed since the last fold."""
    shop.later(EVERY + 1)
    return fold(shop.database)


def test_a_fold_moves_tallies_into_minutes_hours_and_totals(shop: Shop) -> None:
    tallied(shop, 2, 3)
    tallied(shop, 4, verdict="retry", bin=-1)
    tallied(shop, 5, minute=29_000_061)
    before = counted(shop.engine, shop.tables)
    assert not fold(shop.database)
    assert shop.count(shop.tables.tally) == 0
    assert counted(shop.engine, shop.tables) == before
    assert sums(shop) == all_of(14)
    tallied(shop, 1)
    again(shop)
    assert sums(shop) == all_of(15)
    keys = {(row.span, row.minute) for row in shop.rows(shop.tables.stat)}
    assert {minute for span, minute in keys if span == HOUR} == {28_999_980, 29_000_040}


def test_folds_are_five_seconds_apart_over_all_processes(shop: Shop) -> None:
    tallied(shop, 1)
    fold(shop.database)
    tallied(shop, 1)
    fold(shop.database)
    assert (shop.count(shop.tables.tally), sums(shop)) == (1, all_of(1))
    again(shop)
    assert (shop.count(shop.tables.tally), sums(shop)) == (0, all_of(2))
    assert shop.database.read(lambda c: counter.read(c, shop.database)) == {}, "no counter"


def test_a_long_backlog_is_folded_in_parts_without_a_pause(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "FOLDED_AT_ONCE", 2)
    shop = shops.open()
    tallied(shop, 1, 1, 1)
    assert fold(shop.database), "more is left"
    assert sums(shop) == all_of(2)
    assert not fold(shop.database)
    assert sums(shop) == all_of(3)


def test_what_is_taken_back_leaves_the_charts_and_stays_in_the_totals(shop: Shop) -> None:
    tallied(shop, 3, verdict="fail", bin=-1)
    fold(shop.database)
    tallied(shop, -3, verdict="fail", bin=-1)
    tallied(shop, 3, verdict="halt", bin=-1)
    again(shop)
    found = {(row.span, row.verdict): row.attempts for row in shop.rows(shop.tables.stat)}
    assert (found[MINUTE, "fail"], found[HOUR, "fail"], found[TOTAL, "fail"]) == (0, 0, 3)
    assert (found[MINUTE, "halt"], found[TOTAL, "halt"]) == (3, 3)


@pytest.mark.databases("postgresql", "mariadb")
def test_a_window_that_commits_after_later_ones_were_folded_is_counted(shop: Shop) -> None:
    with shop.engine.begin() as late:
        append(late, shop, 7)
        tallied(shop, 1)
        fold(shop.database)
        assert sums(shop) == all_of(1)
    again(shop)
    assert sums(shop) == all_of(8)


class Killed(Exception):
    """The process ends here."""


def die_at(shop: Shop, words: str) -> None:
    """End the fold behind the first statement with these words."""

    def die(_: object, __: object, statement: str, *___: object) -> None:
        if words in statement:
            raise Killed

    sa.event.listen(shop.engine, "after_cursor_execute", die)
    try:
        with pytest.raises(Killed):
            fold(shop.database)
    finally:
        sa.event.remove(shop.engine, "after_cursor_execute", die)


@pytest.mark.parametrize(
    "words", ["DELETE FROM outbox_tally", "INSERT INTO outbox_stat", "UPDATE outbox_counter"]
)
def test_a_fold_that_dies_has_changed_nothing(shop: Shop, words: str) -> None:
    tallied(shop, 2, 3)
    die_at(shop, words)
    assert (shop.count(shop.tables.tally), sums(shop)) == (2, {})
    fold(shop.database)
    assert (shop.count(shop.tables.tally), sums(shop)) == (0, all_of(5))


def test_the_first_fold_has_committed_its_mark_before_it_works(shop: Shop) -> None:
    """Or every other host would wait for the insert of one that vanished."""
    tallied(shop, 2)
    die_at(shop, "DELETE FROM outbox_tally")
    assert [row.name for row in shop.rows(shop.tables.counter)] == [counter.FOLDED]


@pytest.mark.databases("postgresql", "mariadb")
def test_a_second_fold_passes_on_while_the_first_one_works(shop: Shop) -> None:
    tallied(shop, 1)
    fold(shop.database)
    tallied(shop, 1)
    shop.later(EVERY + 1)
    mark = sa.select(shop.tables.counter).where(shop.tables.counter.c.name == counter.FOLDED)
    with shop.engine.begin() as first:
        first.execute(mark.with_for_update())
        assert not fold(shop.database)
        assert sums(shop) == all_of(1)
    fold(shop.database)
    assert sums(shop) == all_of(2)


@pytest.mark.long
def test_many_folds_at_once_count_each_tally_once(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "EVERY", 0.0)
    monkeypatch.setattr(folding, "FOLDED_AT_ONCE", 7)
    shop = shops.open()
    rounds, hosts = 12, 4

    def work(host: int) -> None:
        for number in range(rounds):
            tallied(shop, 1, 2, code=250 + number % 3)
            tallied(shop, 3, server=f"mx{host}.example:25")
            fold(shop.database)

    with ThreadPoolExecutor(hosts) as pool:
        for done in [pool.submit(work, host) for host in range(hosts)]:
            done.result(timeout=PATIENCE)
    while shop.count(shop.tables.tally):
        fold(shop.database)
    assert sums(shop) == all_of(hosts * rounds * 6)


def test_a_process_tries_once_in_five_seconds_and_no_error_stops_it(
    shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    shop, now = shops.open(), 1000.0
    shop.runtime.clock = lambda: now
    tallied(shop, 1)
    with shop.engine.begin() as connection:
        shop.tables.stat.drop(connection)
    fold_tallies(shop.runtime)
    assert "the figures were not summed up" in caplog.text
    with shop.engine.begin() as connection:
        shop.tables.stat.create(connection)
    fold_tallies(shop.runtime)
    assert sums(shop) == {}
    now += EVERY
    fold_tallies(shop.runtime)
    assert sums(shop) == all_of(1)


def test_an_idle_process_looks_for_tallies_twice_a_minute(shops: Shops) -> None:
    """What its own batches counted is summed up without that wait."""
    shop, now = shops.open(), 1000.0
    shop.runtime.clock = lambda: now
    sweep_and_send(shop.runtime)
    tallied(shop, 1)
    now += IDLE_EVERY - 1
    sweep_and_send(shop.runtime)
    assert sums(shop) == {}
    now += 1
    sweep_and_send(shop.runtime)
    assert sums(shop) == all_of(1)
    shop.later(EVERY + 1)
    tallied(shop, 1)
    now += EVERY
    sweep_and_send(shop.runtime, since=shop.runtime.clock())
    assert sums(shop) == all_of(2)


def test_of_more_tallies_than_fit_an_idle_process_sums_up_the_rest_at_once(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "FOLDED_AT_ONCE", 2)
    shop = shops.open()
    tallied(shop, 1, 1, 1)
    sweep_and_send(shop.runtime)
    assert sums(shop) == all_of(2)
    sweep_and_send(shop.runtime)
    assert sums(shop) == all_of(3)


def test_both_ways_to_fold_give_the_same_sums(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    own = backend_of(shop.database.dialect)
    assert own.fold or own.add_to_sums

    def folded() -> Sequence[sa.Row[Any]]:
        """Fold twice: the second time some sums are there already."""
        for attempts in (2, 3):
            tallied(shop, attempts, 3)
            tallied(shop, attempts, minute=29_000_061)
            tallied(shop, -attempts, attempts - 1, verdict="fail", bin=-1)
            again(shop)
        rows = shop.rows(shop.tables.stat)
        with shop.engine.begin() as connection:
            connection.execute(sa.delete(shop.tables.stat))
        return rows

    first = folded()
    monkeypatch.setattr(folding, "backend_of", lambda _: backend_of("unknown"))
    assert folded() == first
