"""A host vanished in a rescue and holds the lease's row: when the lease is judged."""

from __future__ import annotations

from uuid import UUID

import pytest
from sqlalchemy.exc import OperationalError

from outbox import Status
from outbox.store.connection.database import Database
from outbox.store.control import locked_leases
from outbox.store.transitions.rescue import RESCUED, rescue
from tests.integration.store.locks import (
    in_time,
    vanished,
)
from tests.support.shop.shop import LEASE, Shop, sent

pytestmark = pytest.mark.databases("postgresql", "mariadb")


def judge(shop: Shop) -> int:
    return rescue(shop.database, shop.runtime.settings, random=lambda: 0.5).leases


def test_a_lease_that_was_locked_is_judged_one_lease_after_it_is_free(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could renew it meanwhile, so its worker gets the time that it has after an outage."""
    monkeypatch.setattr(locked_leases, "LONG", 0.0)
    email = shop.enqueue()
    token = shop.started().token
    shop.later(LEASE + 1)
    judge(shop)
    shop.later(LEASE + 1)
    with vanished(shop, shop.tables.lease, token) as session:
        assert in_time(lambda: judge(shop), session) == 0
    assert judge(shop) == 0
    assert shop.status(email.id) is Status.CLAIMED
    shop.later(LEASE - 5)
    assert judge(shop) == 0
    shop.later(10)
    assert judge(shop) == 1
    assert shop.email_row(email.id).crashes == 1


def test_a_lease_that_another_sweep_locks_for_a_moment_is_judged_at_once(shop: Shop) -> None:
    shop.enqueue()
    token = shop.started().token
    shop.later(LEASE + 1)
    judge(shop)
    shop.later(LEASE + 1)
    with vanished(shop, shop.tables.lease, token) as session:
        assert in_time(lambda: judge(shop), session) == 0
    assert judge(shop) == 1


def test_a_rescue_that_is_rolled_back_and_repeated_still_knows_that_the_lease_was_locked(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_leases, "LONG", 0.0)
    email = shop.enqueue()
    token = shop.started().token
    shop.later(LEASE + 1)
    judge(shop)
    shop.later(LEASE + 1)
    with vanished(shop, shop.tables.lease, token) as session:
        in_time(lambda: judge(shop), session)
    was_locked, deadlocks = locked_leases.was_locked, [Deadlock()]

    def rolled_back(database: Database, token: UUID) -> bool:
        found = was_locked(database, token)
        if deadlocks:
            raise OperationalError("UPDATE", {}, deadlocks.pop())
        return found

    monkeypatch.setattr(locked_leases, "was_locked", rolled_back)
    assert judge(shop) == 0
    assert not deadlocks
    assert shop.status(email.id) is Status.CLAIMED


class Deadlock(Exception):
    """A driver's error, after which the transaction is repeated."""

    sqlstate = "40P01"


def test_a_lease_that_no_email_carries_any_more_is_not_one_of_a_lost_worker(shop: Shop) -> None:
    """Its worker has recorded all results, and only did not get the lease's row."""
    email = shop.enqueue()
    made = shop.sending(email.id)
    shop.record(made.token, [sent(email.id)])
    shop.later(LEASE + 1)
    judge(shop)
    shop.later(LEASE + 1)
    assert judge(shop) == 0
    assert shop.count(shop.tables.lease) == 0
    assert RESCUED not in shop.outbox.stats().counters
