"""Figures are exact at once: what is not summed up yet is read with the sums."""

from __future__ import annotations

from datetime import UTC

import pytest
import sqlalchemy as sa

from outbox import Figures
from outbox.domain.delivery.transaction import Verdict
from outbox.domain.figures.spans import Period, minute_of
from outbox.store.rollup.fold import fold
from tests.integration.store.rollup.test_fold import tallied
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


def now(shop: Shop) -> int:
    """Return the database's minute."""
    database = shop.database
    moment = database.read(lambda c: c.execute(sa.select(database.now())).scalar_one())
    return minute_of(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def without_time(found: Figures) -> tuple[object, ...]:
    points = [point for point in found.points if point.verdicts]
    return found.verdicts, found.accepted_in, points, found.failures


@pytest.mark.parametrize("period", Period)
def test_a_fold_changes_no_figure(shop: Shop, period: Period) -> None:
    minute = now(shop)
    for ago in (0, 1, 50, 20 * 60, 5 * 24 * 60):
        tallied(shop, 2, minute=minute - ago)
        tallied(shop, 3, minute=minute - ago, verdict="retry", code=450, bin=-1)
        tallied(shop, 1, minute=minute - ago, verdict="retry", code=450, bin=-1, priority=2)
    before = shop.outbox.figures(period)
    seen = {Period.HOUR: 3, Period.DAY: 4, Period.WEEK: 5}[period]
    assert before.verdicts == {Verdict.SENT: 2 * seen, Verdict.RETRY: 4 * seen}
    [failure] = before.failures
    assert (failure.server, failure.code, failure.attempts) == ("mx.example:25", 450, 4 * seen)
    fold(shop.database)
    assert without_time(shop.outbox.figures(period)) == without_time(before)
    tallied(shop, 2, minute=minute)
    assert shop.outbox.figures(period).verdicts[Verdict.SENT] == 2 * seen + 2
