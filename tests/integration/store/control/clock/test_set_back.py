"""A database's clock that was an hour ahead and is set back: nothing waits for an hour for that."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from outbox.domain.delivery.blame import Common
from outbox.domain.delivery.breaker_timing import OPEN_FIRST, SUSPICION_SECONDS
from outbox.store.control import circuit_breaker
from outbox.store.control.blame import comparison, other_senders, suspicion
from outbox.store.control.forgotten_servers import note_configured
from outbox.store.control.set_back.correct_moments import correct_moments
from outbox.store.queries import whole_emails
from outbox.store.queries.server_status import server_statuses
from outbox.store.queries.sweep import server_limits
from tests.integration.store.control.test_circuit_breaker import SERVER, left, probes, trip
from tests.integration.store.queries.test_lanes import swept
from tests.support.shop.shop import LEASE, Shop, Shops, sent
from tests.support.shop.steps.motion import limits

pytestmark = pytest.mark.each_database

HOUR = 3600.0
SOON = 20.0  # seconds that a test may take on a busy machine


def test_a_server_that_came_back_while_it_was_ahead_has_no_ramp_for_an_hour(shops: Shops) -> None:
    shop = shops.open(OUTBOX_BATCH=1, OUTBOX_WINDOW=1)
    shop.later(HOUR)
    trip(shop)
    circuit_breaker.close(shop.database, SERVER)
    assert limits(shop) == {SERVER: 1}
    shop.later(-HOUR)
    assert shop.database.read(lambda c: server_limits.ramps(c, shop.database)) == {}
    (shown,) = shop.database.read(lambda c: server_statuses(c, shop.database, [SERVER]))
    assert (shown.state, shown.batches_allowed) == ("closed", None)
    for _ in range(3):
        shop.enqueue()
    assert len(swept(shop)) == 3


def open_at(shop: Shop) -> None:
    """Sweep, and expect that the server gets its first probe after `OPEN_FIRST` seconds."""
    assert probes(shop) == []
    assert OPEN_FIRST - SOON < left(shop) <= OPEN_FIRST
    shop.later(OPEN_FIRST + 0.1)
    assert probes(shop) == [0]


def test_a_breaker_that_opened_while_it_was_ahead_is_probed_in_its_time(shop: Shop) -> None:
    shop.enqueue()
    shop.later(HOUR)
    trip(shop)
    shop.later(-HOUR)
    open_at(shop)
    (row,) = shop.database.read(lambda c: circuit_breaker.read(c, shop.database)).values()
    assert row.opened_at < row.retry_at


def test_one_that_was_open_before_is_probed_as_soon_as_after_any_probe(shop: Shop) -> None:
    shop.enqueue()
    trip(shop)
    shop.later(HOUR)
    assert circuit_breaker.take_probe(shop.database, SERVER)
    shop.later(-HOUR)
    assert probes(shop) == []
    assert 2 * OPEN_FIRST - SOON < left(shop) <= 2 * OPEN_FIRST


def test_it_waits_as_long_as_the_server_asked_and_no_longer(shop: Shop) -> None:
    shop.enqueue()
    shop.later(HOUR)
    trip(shop, named=2 * HOUR)
    shop.later(-HOUR)
    for _ in range(2):
        assert probes(shop) == []
        assert 2 * HOUR - SOON < left(shop) <= 2 * HOUR


@pytest.mark.parametrize("noted", [False, True])
def test_a_probe_that_fails_before_any_sweep_puts_the_next_one_off_from_now(
    shop: Shop, noted: bool
) -> None:
    """Also after another process has noted, by the clock that was set back, that it has it."""
    shop.enqueue()
    trip(shop)
    shop.later(HOUR)
    assert circuit_breaker.take_probe(shop.database, SERVER)
    shop.later(-HOUR)
    if noted:
        note_configured(shop.database, [SERVER])
    trip(shop)
    open_at(shop)


def test_a_suspicion_of_then_is_forgotten_in_its_time(shop: Shop) -> None:
    shop.later(HOUR)
    suspicion.suspect(shop.database, SERVER, email_id=1, reason="mail: 421 no")
    shop.later(-HOUR)
    swept(shop)
    assert SUSPICION_SECONDS - SOON < left(shop) <= SUSPICION_SECONDS


def test_a_breaker_of_now_is_left_as_it_is(shop: Shop) -> None:
    trip(shop, named=2 * HOUR)
    before = shop.rows(shop.tables.breaker)
    correct_moments(shop.database, LEASE)
    assert shop.rows(shop.tables.breaker) == before


@pytest.mark.databases("postgresql", "mariadb")
def test_a_breaker_that_somebody_holds_is_passed_over(shop: Shop) -> None:
    shop.later(HOUR)
    trip(shop)
    shop.later(-HOUR)
    with shop.engine.begin() as other:
        other.execute(select(shop.tables.breaker).with_for_update())
        correct_moments(shop.database, LEASE)
    assert left(shop) > HOUR / 2


def test_an_email_that_was_taken_then_does_not_seem_to_be_taken_just_now(shop: Shop) -> None:
    """Else it would speak for its server, or against other emails, until the clock comes there."""

    refused = Common(sender="another@shop.example", domains=frozenset(), size=1)

    def speaks() -> list[bool]:
        found, server = shop.database, "mx.example:25"
        return [
            comparison.just_taken(found, server, lambda _: True, seconds=120.0) is not None,
            comparison.taken_elsewhere(found, server, "other", 120.0),
            comparison.taken_since(found, server, opened_at),
            other_senders.outsider_taken(found, server, refused),
        ]

    shop.enqueue()
    shop.later(2 * HOUR)
    made = shop.started()
    (email,) = shop.rows(shop.tables.email)
    shop.open(made.token, email.id)
    now = shop.database.read(lambda c: whole_emails.now(c, shop.database))
    took = replace(sent(email.id), started_at=now.timestamp(), finished_at=now.timestamp())
    opened_at = now - timedelta(hours=3)
    shop.record(made.token, [took])
    assert speaks() == [True] * 4
    shop.later(-2 * HOUR)
    assert speaks() == [False] * 4
