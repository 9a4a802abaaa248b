"""A transaction that holds old figures, jobs or workers keeps no purge and no fold waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox.domain import fleet
from outbox.domain.figures.spans import MINUTE
from outbox.store.jobs import forget as jobs
from outbox.store.rollup.fold import EVERY, fold
from outbox.worker.fold import FOLD, fold_tallies
from outbox.worker.purge import purge_all, purge_briefly
from tests.integration.store.locks import OURS, in_time
from tests.integration.store.purge.test_purge_run import DAY, withdrawn
from tests.integration.store.rollup.test_fold import all_of, sums, tallied
from tests.integration.store.rollup.test_read import now
from tests.support.shop.fleet import row, written
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.databases("postgresql", "mariadb")


def figures(shop: Shop) -> sa.Table:
    tallied(shop, 1, minute=now(shop) - int(3 * DAY) // 60)
    fold(shop.database)
    return shop.tables.stat


def a_worker(shop: Shop) -> sa.Table:
    written(shop, row("gone"))
    shop.later(fleet.KEPT + 60)
    return shop.tables.worker


def a_job(shop: Shop) -> sa.Table:
    job = shop.outbox.start_job("retry", status="failed")
    shop.outbox.stop_job(job.id)
    shop.later(jobs.KEPT + 60)
    return shop.tables.job


@contextmanager
def held(shop: Shop, table: sa.Table) -> Iterator[Session]:
    """Hold all rows of a table, as a person's DELETE does that is not committed."""
    with shop.session() as session:
        session.connection(execution_options=OURS)
        assert session.execute(sa.select(table).with_for_update()).all()
        yield session
        session.rollback()


def purged_by_a_person(shop: Shop) -> int:
    return sum(each.emails for each in purge_all(shop.runtime))


def purged_by_beat(shop: Shop) -> int:
    return purge_briefly(shop.runtime).emails


def old_ones(shop: Shop, table: sa.Table) -> int:
    minutes = table.c.span == MINUTE if table is shop.tables.stat else sa.true()
    return len(shop.rows(table, minutes))


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("old", [figures, a_worker, a_job])
@pytest.mark.parametrize("purged", [purged_by_beat, purged_by_a_person])
def test_a_purge_passes_on_and_a_later_one_removes_them(
    shop: Shop, old: Callable[[Shop], sa.Table], purged: Callable[[Shop], int]
) -> None:
    withdrawn(shop, 3)
    shop.later(31 * DAY)
    table = old(shop)
    with held(shop, table) as session:
        assert in_time(partial(purged, shop), session) == 3
        assert old_ones(shop, table) == 1
    purged_by_beat(shop)
    assert old_ones(shop, table) == 0


def test_a_fold_leaves_the_tallies_to_the_next_one(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def fold_again() -> Any:
        shop.later(EVERY + 1)
        shop.runtime.seldom.forget(FOLD)
        fold_tallies(shop.runtime)

    tallied(shop, 1)
    fold_again()
    tallied(shop, 2)
    with held(shop, shop.tables.stat) as session:
        in_time(fold_again, session)
    assert sums(shop) == all_of(1)
    assert "the figures were not summed up" in caplog.text
    fold_again()
    assert sums(shop) == all_of(3)
