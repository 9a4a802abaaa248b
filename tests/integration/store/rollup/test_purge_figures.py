"""The purge removes old minutes and hours, a few at a time, and no total."""

from __future__ import annotations

import pytest

from outbox.domain.figures.spans import HOUR, MINUTE, TOTAL
from outbox.store.rollup.fold import fold
from outbox.store.rollup.purge import SPANS_AT_ONCE, purge_figures
from outbox.worker.purge import purge_briefly
from tests.integration.store.rollup.test_fold import tallied
from tests.integration.store.rollup.test_read import now
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

DAY = 24 * 60


def spans(shop: Shop) -> dict[int, int]:
    """Return how many rows each span has."""
    rows = [row.span for row in shop.rows(shop.tables.stat)]
    return {span: rows.count(span) for span in (TOTAL, MINUTE, HOUR)}


def test_minutes_are_kept_two_days_hours_400_and_totals_for_ever(shop: Shop) -> None:
    minute = now(shop)
    for days in (0, 1, 3, 399, 401):
        tallied(shop, 1, minute=minute - days * DAY)
    fold(shop.database)
    assert spans(shop) == {TOTAL: 1, MINUTE: 5, HOUR: 5}
    purge_briefly(shop.runtime)
    assert spans(shop) == {TOTAL: 1, MINUTE: 2, HOUR: 4}
    assert shop.rows(shop.tables.stat, shop.tables.stat.c.span == TOTAL)[0].attempts == 5


def test_old_minutes_go_in_small_steps_and_a_step_may_be_the_last(shop: Shop) -> None:
    old, minutes = now(shop) - 10 * DAY, 3 * SPANS_AT_ONCE
    for number in range(minutes):
        tallied(shop, 1, minute=old + number)
    fold(shop.database)
    assert next(purge_figures(shop.database)) == SPANS_AT_ONCE
    assert spans(shop)[MINUTE] == minutes - SPANS_AT_ONCE
    assert sum(purge_figures(shop.database)) == minutes - SPANS_AT_ONCE
    assert spans(shop)[MINUTE] == 0
