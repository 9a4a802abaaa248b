"""A suspicion against a server: how long it stands, and what ends it."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.breaker_timing import SUSPICION_SECONDS, Cause
from outbox.store.control import circuit_breaker
from outbox.store.control.blame import suspicion
from outbox.worker.sweep import sweep
from tests.integration.store.control.test_circuit_breaker import SERVER, trip
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


def test_a_suspicion_leaves_the_server_in_use_and_is_forgotten_in_time(shop: Shop) -> None:
    def state() -> str:
        found = shop.database.read(lambda c: circuit_breaker.read(c, shop.database)).get(SERVER)
        return "closed" if found is None else found.state.value

    suspicion.suspect(shop.database, SERVER, email_id=1, reason="mail: 421 no")
    shop.enqueue()
    assert state() == "suspected"
    assert sweep(shop.runtime, lambda _: None) == 1
    shop.later(SUSPICION_SECONDS + 1)
    assert state() == "closed"
    suspicion.suspect(shop.database, SERVER, email_id=1, reason="mail: 421 no")
    trip(shop)
    assert state() == "open"
    suspicion.suspect(shop.database, SERVER, email_id=2, reason="mail: 421 no")
    suspicion.clear(shop.database, SERVER)
    assert state() == "open", "neither changes a breaker that is open"


def test_a_silence_counts_emails_in_a_row_and_outlives_a_judgement(shop: Shop) -> None:
    def note(email_id: int) -> tuple[int, int | None]:
        found = suspicion.silent(shop.database, SERVER, email_id=email_id, reason="no reply")
        assert found is not None
        assert (found.state, found.cause) == ("suspected", Cause.SILENCE)
        return found.failures, found.suspect_id

    def standing() -> list[tuple[str, int, int | None]]:
        rows = shop.database.read(lambda c: circuit_breaker.read(c, shop.database)).values()
        return [(row.cause.value, row.failures, row.suspect_id) for row in rows]

    suspicion.suspect(shop.database, SERVER, email_id=9, reason="mail: 421 no")
    assert [note(1), note(1), note(2), note(3)] == [(1, 1), (1, 1), (2, 2), (3, 3)]
    suspicion.clear(shop.database, SERVER)
    assert standing() == [("silence", 0, 3)], "what is like it comes last, but blames nobody"
    suspicion.suspect(shop.database, SERVER, email_id=9, reason="mail: 421 no")
    assert standing() == [("silence", 0, 3)]
    assert note(3) == (1, 3)
    shop.later(SUSPICION_SECONDS + 1)
    assert standing() == []
    suspicion.suspect(shop.database, SERVER, email_id=9, reason="mail: 421 no")
    assert standing() == [("emails", 0, 9)]
    trip(shop)
    assert suspicion.silent(shop.database, SERVER, email_id=1, reason="no reply") is None


def test_an_alert_tells_its_own_reason_and_not_that_of_the_suspicion_before_it(shop: Shop) -> None:
    def note(reason: str, *, alert: bool) -> tuple[bool, str]:
        suspicion.suspect(shop.database, SERVER, email_id=1, reason=reason, alert=alert)
        row = shop.database.read(lambda c: circuit_breaker.read(c, shop.database))[SERVER]
        return row.alert, row.reason

    assert note("mail: 421 no", alert=False) == (False, "mail: 421 no")
    assert note("mail: 451 no", alert=False) == (False, "mail: 451 no")
    assert note("no SMTPUTF8", alert=True) == (True, "no SMTPUTF8")
    assert note("no 8BITMIME", alert=True) == (True, "no SMTPUTF8"), "a person sees to the first"
    assert note("mail: 421 no", alert=False) == (True, "no SMTPUTF8")
