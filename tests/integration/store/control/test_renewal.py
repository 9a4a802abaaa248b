"""The leases of one process are renewed together, and each for itself."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select

from outbox.store.control import lease
from outbox.store.schema.clock import utc
from tests.integration.store.leases import leases
from tests.support.shop.shop import LEASE, Shop

pytestmark = pytest.mark.each_database

MANY = 200


def renew(shop: Shop, tokens: list[UUID]) -> lease.Renewal:
    return lease.renew(shop.database, tokens, lease_seconds=LEASE)


def ends(shop: Shop) -> dict[UUID, datetime]:
    return {row.token: utc(row.expires_at) for row in shop.rows(shop.tables.lease)}


def test_many_leases_are_renewed_at_once_and_no_other(shop: Shop) -> None:
    tokens, (stranger,) = leases(shop, MANY), leases(shop, 1)
    before = ends(shop)
    shop.later(10)
    assert renew(shop, tokens) == lease.Renewal(renewed=frozenset(tokens), lost=frozenset())
    after = ends(shop)
    assert all((after[token] - before[token]).total_seconds() >= 9 for token in tokens)
    assert after[stranger] == before[stranger]


def test_lost_leases_keep_no_other_from_its_renewal(shop: Shop) -> None:
    kept, gone = leases(shop, 3), [uuid4(), uuid4()]
    renewal = renew(shop, [gone[0], *kept, gone[1]])
    assert renewal == lease.Renewal(renewed=frozenset(kept), lost=frozenset(gone))
    assert ends(shop).keys() == set(kept)


@pytest.mark.databases("postgresql", "mariadb")
def test_a_lease_that_somebody_holds_is_neither_renewed_nor_lost(shop: Shop) -> None:
    """Whoever vanished in the midst of a transaction holds its rows for hours."""
    first, locked, last = sorted(leases(shop, 3))
    before = ends(shop)
    shop.later(10)
    table = shop.tables.lease
    with shop.engine.begin() as other:
        other.execute(select(table).where(table.c.token == locked).with_for_update())
        renewal = renew(shop, [first, locked, last])
        assert renewal == lease.Renewal(renewed=frozenset({first, last}), lost=frozenset())
    assert ends(shop)[locked] == before[locked]
    assert renew(shop, [locked]).renewed == {locked}
    assert ends(shop)[locked] > before[locked]


@pytest.mark.databases("postgresql", "mariadb")
def test_a_lease_is_lost_only_when_its_end_is_committed(shop: Shop) -> None:
    (token,) = leases(shop, 1)
    table = shop.tables.lease
    with shop.engine.begin() as other:
        other.execute(delete(table).where(table.c.token == token))
        assert renew(shop, [token]) == lease.Renewal(renewed=frozenset(), lost=frozenset())
    assert renew(shop, [token]).lost == {token}
