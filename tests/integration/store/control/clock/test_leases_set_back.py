"""Leases of a time when the database's clock was an hour ahead, once it is set back.

What a lost task or worker held is rescued in its time, and a living worker keeps what it has.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from outbox import Status
from outbox.domain.delivery.breaker_timing import OPEN_FIRST
from outbox.store.control import circuit_breaker, lease
from outbox.store.control.set_back.ahead import TERMS
from outbox.store.control.set_back.correct_moments import correct_moments
from outbox.store.queries.progress import progress
from outbox.store.queries.sweep.sweep_snapshot import read_snapshot
from tests.integration.store.control.test_circuit_breaker import SERVER, probes, trip
from tests.integration.store.queries.plans.generic_plans import statements
from tests.integration.store.queries.plans.test_idle_sweep import BEGIN
from tests.integration.store.queries.test_lanes import swept
from tests.support.shop.shop import LEASE, Shop, Shops

pytestmark = pytest.mark.each_database

HOUR = 3600.0
AHEAD = (100.0, HOUR)
SOON = 20.0  # seconds that a test may take on a busy machine


def only(shop: Shop) -> Any:
    """Return the only lease."""
    (row,) = shop.rows(shop.tables.lease)
    return row


def renew(shop: Shop, token: UUID, seconds: float = LEASE) -> bool:
    return bool(lease.renew(shop.database, [token], lease_seconds=seconds).renewed)


def rescue_seconds(shop: Shop) -> float:
    """Return what a person is told of when the only batch is rescued."""
    found = shop.database.read(lambda c: progress(c, shop.database, lease_seconds=LEASE))
    (batch,) = found.batches
    return batch.rescue_seconds


@pytest.mark.parametrize("ahead", AHEAD)
def test_a_batch_whose_task_was_lost_goes_back_after_one_lease(shop: Shop, ahead: float) -> None:
    email = shop.enqueue()
    shop.later(ahead)
    shop.claim()
    shop.later(-ahead)
    assert swept(shop) == []
    assert rescue_seconds(shop) <= LEASE
    shop.later(LEASE + 1)
    swept(shop)
    row = shop.email_row(email.id)
    assert (row.status, row.crashes) == (Status.PENDING, 0)


@pytest.mark.matrix
@pytest.mark.parametrize("ahead", AHEAD)
def test_a_batch_whose_worker_died_is_rescued_after_two_leases(shop: Shop, ahead: float) -> None:
    email = shop.enqueue()
    (made,) = shop.claim()
    shop.later(ahead)
    assert shop.start(made.token)
    assert shop.open(made.token, email.id)
    shop.later(-ahead)
    swept(shop)
    for _ in range(2):
        assert shop.status(email.id) is Status.SENDING
        shop.later(LEASE + 1)
        swept(shop)
    row = shop.email_row(email.id)
    assert (row.status, row.unknown_token) == (Status.PENDING, made.token)


def test_it_gives_up_its_slot_after_one_lease(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SLOTS=1)
    shop.enqueue()
    shop.later(HOUR)
    shop.started()
    shop.later(-HOUR)
    shop.enqueue()
    assert swept(shop) == []
    shop.later(LEASE + 1)
    assert len(swept(shop)) == 1


def test_a_lost_prober_keeps_no_other_probe_away_for_an_hour(shop: Shop) -> None:
    shop.enqueue()
    trip(shop)
    shop.later(HOUR)
    assert probes(shop) == [0]
    shop.later(-HOUR)
    assert probes(shop) == []
    shop.later(LEASE + 1)
    assert probes(shop) == [], "this sweep gives the batch back"
    assert probes(shop) == [0]


def test_a_lease_that_was_started_before_and_renewed_then_ends_in_minutes(shop: Shop) -> None:
    """No column says when it was renewed, and another worker's term may be longer."""
    email = shop.enqueue()
    made = shop.started()
    shop.later(HOUR)
    assert renew(shop, made.token)
    shop.later(-HOUR)
    swept(shop)
    shop.later(TERMS * LEASE + 1)
    swept(shop)
    shop.later(LEASE + 1)
    swept(shop)
    assert shop.status(email.id) is Status.PENDING


def test_a_lease_that_was_seen_to_run_out_then_is_judged_one_lease_after_it_is_seen_anew(
    shop: Shop,
) -> None:
    email = shop.enqueue()
    shop.started()
    shop.later(HOUR)
    swept(shop)
    noted = only(shop).suspected_at
    shop.later(-HOUR)
    assert LEASE < rescue_seconds(shop) <= 2 * LEASE
    shop.later(LEASE + 1)
    swept(shop)
    assert only(shop).suspected_at < noted
    shop.later(LEASE - SOON)
    swept(shop)
    assert shop.status(email.id) is Status.CLAIMED, "its worker may still renew"
    shop.later(SOON + 1)
    swept(shop)
    assert shop.status(email.id) is Status.PENDING


def test_a_worker_that_lives_keeps_its_lease(shop: Shop) -> None:
    shop.enqueue()
    shop.later(HOUR)
    made = shop.started()
    shop.later(-HOUR)
    swept(shop)
    shop.later(LEASE - SOON)
    swept(shop)
    assert only(shop).suspected_at is None
    for _ in range(4):
        assert renew(shop, made.token)
        swept(shop)
        shop.later(LEASE - SOON)
        swept(shop)
    assert (only(shop).token, only(shop).suspected_at) == (made.token, None)


@pytest.mark.parametrize("started", [False, True])
def test_a_lease_that_is_longer_by_its_workers_settings_lasts_as_long_as_it_was_to(
    shop: Shop, started: bool
) -> None:
    shop.enqueue()
    term = TERMS * LEASE - 1
    shop.later(HOUR)
    (made,) = shop.claim()
    if started:
        assert shop.start(made.token)
    taken = shop.tables.lease
    with shop.engine.begin() as connection:
        connection.execute(update(taken).values(expires_at=shop.database.now(term)))
    shop.later(-HOUR)
    swept(shop)
    shop.later(term - SOON)
    swept(shop)
    assert only(shop).suspected_at is None
    shop.later(SOON)
    assert renew(shop, made.token, term)
    before = only(shop).expires_at
    swept(shop)
    assert only(shop).expires_at == before


def test_a_lease_that_was_renewed_or_ran_out_since_is_left(shop: Shop) -> None:
    shop.enqueue()
    shop.later(HOUR)
    made = shop.started()
    shop.later(-HOUR)
    assert renew(shop, made.token)
    renewed = only(shop).expires_at
    swept(shop)
    assert only(shop).expires_at == renewed
    shop.later(HOUR)
    assert renew(shop, made.token)
    shop.later(-HOUR)
    shop.database.run(lambda c: lease.let_run_out(c, shop.database, [made.token]))
    swept(shop)
    assert only(shop).suspected_at is not None


def test_what_was_corrected_costs_the_next_sweeps_nothing(shop: Shop) -> None:
    shop.enqueue()
    shop.later(HOUR)
    shop.started()
    trip(shop)
    shop.later(-HOUR)

    def is_seen() -> bool:
        runtime = shop.runtime
        found = read_snapshot(shop.database, runtime.lanes, runtime.servers, limit=1, term=LEASE)
        return found.set_back

    assert is_seen()
    swept(shop)
    assert not is_seen()
    asked = statements(shop, lambda _: swept(shop))
    assert len([each for each in asked if not each.startswith(BEGIN)]) == 1


def test_what_is_not_of_the_future_is_left(shop: Shop) -> None:
    shop.enqueue()
    shop.started()
    trip(shop)
    shop.later(OPEN_FIRST + 1)
    assert circuit_breaker.take_probe(shop.database, SERVER)
    before = [shop.rows(table) for table in (shop.tables.lease, shop.tables.breaker)]
    correct_moments(shop.database, LEASE)
    assert [shop.rows(table) for table in (shop.tables.lease, shop.tables.breaker)] == before


def test_nobody_is_told_of_an_email_that_waits_for_less_than_no_time(shop: Shop) -> None:
    shop.later(HOUR)
    shop.enqueue()
    shop.claim()
    shop.later(-HOUR)
    assert shop.outbox.health().oldest_claimed_seconds == 0.0
