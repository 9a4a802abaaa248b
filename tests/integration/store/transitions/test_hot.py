"""On PostgreSQL no index learns that a window was opened: the update stays in the email's page."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import REGCLASS

from outbox import Status
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.databases("postgresql")


@pytest.mark.parametrize(
    ("change", "hot"),
    [
        ({"status": Status.SENDING}, 1),
        ({"status": Status.CLAIMED, "finished_at": sa.func.now()}, 0),
    ],
    ids=["a window", "an end"],
)
def test_opening_a_window_is_a_hot_update_and_an_end_is_none(
    shop: Shop, change: dict[str, object], hot: int
) -> None:
    shop.enqueue()
    shop.claim()
    email = shop.tables.email
    updated = sa.func.pg_stat_get_xact_tuples_hot_updated(sa.cast(email.name, REGCLASS))
    with shop.engine.begin() as connection:
        assert connection.execute(email.update().values(change)).rowcount == 1
        assert connection.scalar(sa.select(updated)) == hot
