"""A suspicion against a server: how long it stands, what ends it, and which emails tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from outbox.domain.delivery.breaker_timing import SUSPICION_SECONDS, Cause
from outbox.domain.delivery.transaction import Verdict
from outbox.store.control import circuit_breaker
from outbox.store.control.blame import attempts, comparison, suspicion
from outbox.store.control.blame.attempts import READ_BACK
from outbox.worker.sweep import sweep
from tests.integration.store.control.test_circuit_breaker import SERVER, trip
from tests.integration.store.queries.plans.generic_plans import Look, each, plans
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

BUSY = "busy.example:25"

LOOKS: dict[str, Look] = {
    "another host": lambda shop: comparison.taken_elsewhere(shop.database, SERVER, "other", 60.0),
    "just now": lambda shop: comparison.just_taken(
        shop.database, SERVER, lambda _: True, seconds=60.0
    ),
    "since": lambda shop: comparison.taken_since(
        shop.database, SERVER, datetime(2026, 1, 1, tzinfo=UTC)
    ),
    "slowest": lambda shop: comparison.slowest_taken(shop.database, SERVER),
    "contents": lambda shop: len(
        comparison.contents_taken(
            shop.database, SERVER, "", [row.id for row in shop.rows(shop.tables.content)]
        )
    ),
    "doubts": lambda shop: comparison.doubts_in_a_row(shop.database, SERVER),
}


def log(shop: Shop, email_id: int, server: str, verdict: Verdict, count: int = 1) -> None:
    """Log so many attempts of an email, each of which has just taken a second."""
    now = datetime.now(UTC)
    row = {
        "email_id": email_id,
        "started_at": now - timedelta(seconds=1),
        "finished_at": now,
        "verdict": verdict,
        "phase": "dot",
        "code": 250,
        "enhanced": "",
        "reply": "",
        "worker": "host:1",
        "server": server,
    }
    with shop.engine.begin() as connection:
        connection.execute(insert(shop.tables.attempt), [row] * count)


def found(shop: Shop, email_id: int, among: int) -> list[object]:
    """Log that a server took an email and left it in doubt, and then others of a busy server.

    Return what is found of it then. An email that is in doubt comes last.
    """
    for verdict in (Verdict.SENT, Verdict.UNKNOWN):
        log(shop, email_id, SERVER, verdict)
    log(shop, email_id, BUSY, Verdict.SENT, among)
    return [look(shop) for look in LOOKS.values()]


def test_what_a_quiet_server_took_is_found_beside_a_busy_one(shop: Shop) -> None:
    email = shop.enqueue()
    assert found(shop, email.id, READ_BACK) == [True, email.id, True, 1.0, 1, 1]


def test_it_is_looked_for_among_some_attempts_of_all_servers_only(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "REACH", 10)
    email = shop.enqueue()
    assert found(shop, email.id, 8) == [True, email.id, True, 1.0, 1, 1]
    assert found(shop, email.id, 10) == [False, None, False, 0.0, 0, 0]


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_no_look_goes_through_the_whole_log(shop: Shop) -> None:
    email = shop.enqueue()
    log(shop, email.id, BUSY, Verdict.SENT, 20_000)
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE outbox_attempt")
    for name, look in LOOKS.items():
        nodes = [node for plan in plans(shop, look) for node in each(plan)]
        scans = [node for node in nodes if node.get("Relation Name") == "outbox_attempt"]
        assert scans, name
        assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}, name
        conditions = ["Index Cond" in node for node in scans if node["Node Type"] == "Index Scan"]
        assert all(conditions), name


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
