"""A breaker's way back: one probe with a lease of its own, then a ramp, for each server apart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from outbox.domain.delivery.breaker_timing import OPEN_FIRST, RAMP_SECONDS, Cause
from outbox.store.control import circuit_breaker, lease
from outbox.store.queries.server_status import alerts, server_statuses
from outbox.store.queries.sweep import server_limits
from outbox.store.records import Claim
from outbox.store.report_records import ServerStatus
from tests.support.shop.shop import LEASE, Shop
from tests.support.shop.steps.motion import limits

pytestmark = pytest.mark.each_database

SERVER, OTHER = "mx.example:25", "spare"


def trip(shop: Shop, server: str = SERVER, **options: object) -> None:
    values: dict[str, object] = {"cause": Cause.SESSION, "reason": "connect: refused"} | options
    circuit_breaker.trip(shop.database, server, **values)  # type: ignore[arg-type]


def limit(shop: Shop, server: str = SERVER) -> int | None:
    return limits(shop).get(server)


def told(shop: Shop) -> tuple[bool, str]:
    (row,) = shop.rows(shop.tables.breaker)
    return bool(row.alert), row.reason


def recovered(shop: Shop) -> None:
    trip(shop)
    circuit_breaker.close(shop.database, SERVER)


def prober(shop: Shop) -> Claim:
    """Have a batch probe the server once it has been down for long enough; return its lease."""
    trip(shop)
    shop.later(OPEN_FIRST + 0.1)
    assert circuit_breaker.take_probe(shop.database, SERVER)
    (made,) = shop.claim()
    circuit_breaker.note_prober(shop.database, SERVER, made.token)
    assert shop.start(made.token)
    return made


def test_each_server_has_a_breaker_of_its_own(shop: Shop) -> None:
    assert (limit(shop), limit(shop, OTHER)) == (None, None)
    trip(shop)
    assert (limit(shop), limit(shop, OTHER)) == (server_limits.OPEN, None)
    shop.later(OPEN_FIRST + 0.1)
    trip(shop, OTHER)
    assert (limit(shop), limit(shop, OTHER)) == (server_limits.HALF_OPEN, server_limits.OPEN)
    assert not circuit_breaker.take_probe(shop.database, OTHER)
    assert circuit_breaker.take_probe(shop.database, SERVER)
    circuit_breaker.close(shop.database, SERVER)
    assert limit(shop, OTHER) == server_limits.OPEN


def test_after_an_outage_the_batches_in_flight_double_each_second(shop: Shop) -> None:
    recovered(shop)
    assert limit(shop) == 1
    seen = []
    for _ in range(RAMP_SECONDS.__ceil__()):
        shop.later(1.0)
        seen.append(limit(shop))
    assert seen == [2, 4, 8, 16, 32, None]


def test_a_failure_within_the_ramp_opens_the_breaker_and_the_ramp_begins_anew(shop: Shop) -> None:
    recovered(shop)
    shop.later(3)
    trip(shop)
    assert limit(shop) == server_limits.OPEN
    circuit_breaker.close(shop.database, SERVER)
    assert limit(shop) == 1


def test_closing_what_is_closed_begins_no_ramp(shop: Shop) -> None:
    circuit_breaker.close(shop.database, SERVER)
    assert limit(shop) is None
    recovered(shop)
    shop.later(2.5)
    circuit_breaker.close(shop.database, SERVER)
    assert limit(shop) == 4


def test_two_who_close_at_once_make_one_ramp(shop: Shop) -> None:
    trip(shop)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: circuit_breaker.close(shop.database, SERVER), range(4)))
    assert limit(shop) == 1
    assert shop.count(shop.tables.server) == 1


def test_a_prober_that_hangs_keeps_others_away_for_as_long_as_its_lease_lasts(shop: Shop) -> None:
    shop.enqueue()
    made = prober(shop)
    shop.later(100)  # a reply's deadline is minutes away, and its next probe was due long ago
    lease.renew(shop.database, [made.token], lease_seconds=LEASE)
    assert limit(shop) == server_limits.OPEN
    assert not circuit_breaker.take_probe(shop.database, SERVER)
    lease.drop(shop.database, made.token)
    assert limit(shop) == server_limits.HALF_OPEN
    assert circuit_breaker.take_probe(shop.database, SERVER)


def test_a_prober_that_dies_does_not_leave_the_breaker_half_open(shop: Shop) -> None:
    email = shop.enqueue()
    prober(shop)
    shop.rescue()
    assert (shop.status(email.id), limit(shop)) == ("pending", server_limits.HALF_OPEN)
    assert circuit_breaker.take_probe(shop.database, SERVER)


def test_a_sweep_that_dies_between_probe_and_claim_does_not_either(shop: Shop) -> None:
    trip(shop)
    shop.later(OPEN_FIRST + 0.1)
    assert circuit_breaker.take_probe(shop.database, SERVER)
    assert not circuit_breaker.take_probe(shop.database, SERVER)
    shop.later(2 * OPEN_FIRST + 0.1)
    assert circuit_breaker.take_probe(shop.database, SERVER)


def test_nothing_brings_the_next_probe_forward(shop: Shop) -> None:
    trip(shop, named=1000.0)
    (before,) = shop.rows(shop.tables.breaker)
    trip(shop, named=10.0)
    trip(shop)
    (after,) = shop.rows(shop.tables.breaker)
    assert after.retry_at == before.retry_at


def test_a_failed_probe_that_took_long_is_not_followed_by_the_next_at_once(shop: Shop) -> None:
    trip(shop)
    shop.later(OPEN_FIRST + 0.1)
    assert circuit_breaker.take_probe(shop.database, SERVER)
    shop.later(60)
    trip(shop, reason="greeting: 0 timed out")
    assert limit(shop) == server_limits.OPEN


def test_an_alert_stands_with_its_reason_until_the_server_takes_an_email(shop: Shop) -> None:
    trip(shop, alert=True, reason="auth: 535 no", refusal="rcpt: 554")
    trip(shop, cause=Cause.SESSION, reason="connect: refused")
    assert told(shop) == (True, "auth: 535 no; since then connect: refused")
    trip(shop, cause=Cause.SESSION, reason="greeting: " + 600 * "4")
    assert told(shop) == (True, f"auth: 535 no; since then greeting: {227 * '4'}")
    assert circuit_breaker.refusal(shop.database, SERVER) == "rcpt: 554"
    trip(shop, alert=True, reason="auth: 534 still no")
    assert shop.rows(shop.tables.breaker)[0].reason == "auth: 534 still no"
    circuit_breaker.close(shop.database, SERVER)
    assert circuit_breaker.refusal(shop.database, SERVER) is None


def test_how_each_server_stands(shop: Shop) -> None:
    def states() -> dict[str, str]:
        return {one.server: one.state for one in read()}

    def read() -> tuple[ServerStatus, ...]:
        return shop.database.read(lambda c: server_statuses(c, shop.database, [SERVER, OTHER]))

    assert states() == {SERVER: "closed", OTHER: "closed"}
    trip(shop, alert=True, reason="auth: 535 no")
    assert states() == {SERVER: "open", OTHER: "closed"}
    (raised,) = alerts(read())
    assert (raised.server, raised.reason) == (SERVER, "auth: 535 no")
    assert raised.since is not None
    assert raised.next_probe is not None
    shop.later(301)
    assert states()[SERVER] == "half-open"
    circuit_breaker.close(shop.database, SERVER)
    assert states()[SERVER] == "recovering"
    assert read()[0].batches_allowed == 1
    assert alerts(read()) == ()
    shop.later(10)
    assert states()[SERVER] == "closed"


def test_a_server_that_is_configured_no_more_is_shown_and_raises_no_alert(shop: Shop) -> None:
    trip(shop, "gone", alert=True)
    found = shop.database.read(lambda c: server_statuses(c, shop.database, [SERVER]))
    assert [(one.server, one.configured) for one in found] == [
        (SERVER, True),
        ("gone", False),
    ]
    assert alerts(found) == ()


def test_the_states_of_all_servers_are_read_by_a_statement_that_names_none(shop: Shop) -> None:
    def texts() -> list[str]:
        found = server_limits.limiting(shop.database)
        return [str(each.compile(shop.engine)) for each in found]

    statements = texts()
    for name in ("a", "b", "c"):
        trip(shop, name)
    circuit_breaker.close(shop.database, "b")
    assert limits(shop) == {"a": server_limits.OPEN, "b": 1, "c": server_limits.OPEN}
    assert texts() == statements
