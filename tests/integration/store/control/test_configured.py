"""A halted server that is configured no more is forgotten after a day, wherever nobody has it."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.breaker_timing import Cause
from outbox.store.control import circuit_breaker
from outbox.store.control.forgotten_servers import KEPT
from outbox.worker.purge import purge_all, purge_briefly
from outbox.worker.sweep import NOTE_HALTED, sweep
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database

OLD, NEW = ({"name": name, "server": "127.0.0.1", "port": 1} for name in ("old", "new"))
HOUR = 3600.0


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """A shop whose configuration has had a server less for a while."""
    shop = shops.open(OUTBOX_SERVERS=[NEW])
    for name in ("old", "new"):
        circuit_breaker.trip(
            shop.database, name, cause=Cause.SESSION, reason="auth: 535 no", alert=True
        )
    return shop


def halted(shop: Shop) -> set[str]:
    return {row.server for row in shop.rows(shop.tables.breaker)}


def test_it_is_forgotten_after_a_day_and_those_that_are_configured_never(shop: Shop) -> None:
    shop.later(KEPT)
    purge_briefly(shop.runtime)
    assert halted(shop) == {"old", "new"}, "its probe was due a few minutes after it was halted"
    shop.later(HOUR)
    purge_briefly(shop.runtime)
    assert halted(shop) == {"new"}


def test_purging_by_hand_forgets_it_too(shop: Shop) -> None:
    shop.later(KEPT + HOUR)
    list(purge_all(shop.runtime, older_than=HOUR))
    assert halted(shop) == {"new"}


@pytest.mark.long
def test_another_host_that_has_it_configured_keeps_it(shops: Shops, shop: Shop) -> None:
    other = shops.open(OUTBOX_SERVERS=[OLD])
    for _ in range(3):
        for each in (shop, other):
            each.later(20 * HOUR)
        sweep(other.runtime, lambda _: None)
        other.runtime.seldom.forget(NOTE_HALTED)
        purge_briefly(shop.runtime)
        assert halted(shop) == {"old", "new"}
    shop.later(KEPT + 1)
    purge_briefly(shop.runtime)
    assert halted(shop) == {"new"}


def test_a_process_notes_its_halted_servers_once_an_hour(shop: Shop) -> None:
    now = 0.0
    shop.runtime.clock = lambda: now

    def moments() -> dict[str, object]:
        return {row.server: row.seen_at for row in shop.rows(shop.tables.breaker)}

    halted_at = moments()

    def seen() -> object:
        sweep(shop.runtime, lambda _: None)
        found = moments()
        assert found["old"] == halted_at["old"]
        return found["new"]

    shop.later(1)
    first = seen()
    assert first != halted_at["new"]
    shop.later(HOUR)
    now = HOUR - 1
    assert seen() == first
    now = HOUR
    assert seen() != first


def test_its_alert_makes_health_fail_neither_before_nor_after(shop: Shop) -> None:
    circuit_breaker.close(shop.database, "new")
    for _ in range(2):
        runner(shop)("health")
        shop.later(KEPT + HOUR)
        purge_briefly(shop.runtime)
