"""Several databases in one app: what a savepoint has undone is in none of them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from outbox import ConfigurationError
from tests.integration.atomic.binds import APART, Opened, Step, enqueued, kept, ordered
from tests.support.shop.shop import message

pytestmark = pytest.mark.each_database


@pytest.mark.parametrize("deep", [False, True])
def test_an_email_that_a_savepoint_has_undone_refuses_nothing(opened: Opened, deep: bool) -> None:
    binds = opened(None)
    savepoint = binds.db.session.begin_nested()
    with binds.db.session.begin_nested() if deep else nullcontext():
        binds.outbox.enqueue(message())
    savepoint.rollback()
    binds.order()
    binds.db.session.commit()
    assert (binds.count(binds.shop), binds.emails()) == (1, 0)


@pytest.mark.parametrize("deep", [False, True])
def test_an_order_that_a_savepoint_has_undone_refuses_no_email(opened: Opened, deep: bool) -> None:
    binds = opened(None)
    savepoint = binds.db.session.begin_nested()
    with binds.db.session.begin_nested() if deep else nullcontext():
        binds.order()
    savepoint.rollback()
    binds.outbox.enqueue(message())
    binds.db.session.commit()
    assert (binds.count(binds.shop), binds.emails()) == (0, 1)


ORDERED = [(ordered, enqueued), (enqueued, ordered)]


@pytest.mark.matrix
@pytest.mark.parametrize(("one", "other"), ORDERED)
@pytest.mark.parametrize("place", ["before a savepoint that is undone", "in one that is kept"])
def test_what_a_savepoint_has_not_undone_is_refused_still(
    opened: Opened, place: str, one: Step, other: Step
) -> None:
    binds = opened(None)
    if place == "in one that is kept":
        with binds.db.session.begin_nested():
            one(binds)
    else:
        one(binds)
        savepoint = binds.db.session.begin_nested()
        one(binds)
        savepoint.rollback()
    with pytest.raises(ConfigurationError, match=APART):
        kept(binds, other)
    binds.db.session.rollback()
    assert (binds.count(binds.shop), binds.emails()) == (0, 0)
