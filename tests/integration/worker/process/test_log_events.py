"""What a person may have to see is one log line, with ids and codes, and without an address."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from outbox import Status
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.transaction import Phase, Reply, Transaction, Verdict
from outbox.store.control import circuit_breaker
from outbox.worker.batch.watch.server_breaker import ServerBreaker
from outbox.worker.drain import drain
from outbox.worker.process.retry_writes import TOLD_EVERY
from outbox.worker.sweep import sweep
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import runner, stuck
from tests.support.shop.shop import LEASE, Shop, Shops

pytestmark = pytest.mark.each_database

NOBODY = "nobody@customers.example"


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="outbox")


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, dict[str, object]]]:
    """Return the text, level and values of each line that has values."""
    return [(r.getMessage(), r.levelno, r.outbox) for r in caplog.records if hasattr(r, "outbox")]


def test_an_email_that_is_refused_is_logged_with_the_codes_and_no_address(
    sending: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    catcher.reply_to_recipient = lambda to: f"550 5.1.1 <{to}>: ?" if to == NOBODY else None
    email = sending.enqueue(NOBODY)
    sending.enqueue("a@customers.example")
    drain(sending.runtime)
    [(text, level, values)] = events(caplog)
    assert text == f"outbox: email {email.id} ended failed (rcpt 550 5.1.1)"
    assert level == logging.WARNING
    assert values == {"event": "email_failed", "email_id": email.id, "cause": "rcpt 550 5.1.1"}
    assert "customers.example" not in caplog.text


def test_a_lost_worker_is_logged_and_each_email_that_waits_for_a_person(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    held, again = shop.enqueue(on_unknown="hold"), shop.enqueue(on_unknown="resend")
    shop.enqueue()  # it waits for its window
    made = shop.started()
    assert shop.open(made.token, held.id, again.id) == {held.id, again.id}
    for _ in range(2):  # the first sweep sees the lease expired, the second one judges it
        shop.later(LEASE + 1)
        sweep(shop.runtime, lambda _: None)
    found = [(values["event"], level) for _, level, values in events(caplog)]
    assert sorted(found) == [
        ("email_unknown", logging.WARNING),
        ("leases_rescued", logging.WARNING),
    ]
    [told] = [one for one in events(caplog) if one[2]["event"] == "leases_rescued"]
    text, _, values = told
    assert (
        text == "outbox: 3 emails of lost workers were rescued, 2 of them in doubt; 1 batch ended"
    )
    counts = {"leases": 1, "emails": 3, "in_doubt": 2}
    assert values == {"event": "leases_rescued"} | counts
    [unknown] = [values for *_, values in events(caplog) if values["event"] == "email_unknown"]
    assert unknown["email_id"] == held.id
    assert "the worker was lost" in str(unknown["cause"])


@pytest.mark.long
def test_a_server_that_is_away_is_logged_once_whatever_its_probes_find(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        shop.enqueue()
        drain(shop.runtime)
        shop.later(600)  # the next drain makes a probe
    [breaker] = shop.rows(shop.tables.breaker)
    assert breaker.failures == 3
    found = [(values["event"], values["server"], level) for _, level, values in events(caplog)]
    assert found == [("breaker_opened", shop.runtime.servers[0].name, logging.WARNING)]


def test_a_server_that_many_batches_halt_at_once_is_logged_once_and_its_alert_too(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    name = shop.runtime.servers[0].name
    batches = [ServerBreaker(shop.runtime, name, None) for _ in range(4)]  # each found it closed
    away = Transaction(
        verdict=Verdict.HALT, phase=Phase.GREETING, reply=Reply(code=421, text="busy")
    )
    for batch in batches[:2]:
        batch.trip(Cause.SESSION, away)
    for batch in batches[2:]:
        batch.trip(Cause.SESSION, replace(away, alert=True))
    found = [(values["event"], values["alert"], level) for _, level, values in events(caplog)]
    assert found == [
        ("breaker_opened", False, logging.WARNING),
        ("breaker_opened", True, logging.ERROR),
    ]


def test_a_server_that_is_halted_again_and_again_is_logged_once_a_minute_and_what_is_new_at_once(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    name, now = shop.runtime.servers[0].name, 0.0
    shop.runtime.clock = lambda: now
    busy = Transaction(verdict=Verdict.HALT, phase=Phase.DATA, reply=Reply(code=451, text="busy"))
    away = replace(busy, phase=Phase.CONNECT, reply=Reply(code=0, text="refused"))

    def halted(result: Transaction) -> int:
        """Halt the server, which a probe finds well; return how many lines tell of it."""
        caplog.clear()
        ServerBreaker(shop.runtime, name, None).trip(Cause.SESSION, result)
        circuit_breaker.close(shop.database, name)
        return len(events(caplog))

    assert [halted(busy) for _ in range(3)] == [1, 0, 0]
    assert [halted(away), halted(busy)] == [1, 0]
    assert halted(replace(busy, alert=True)) == 1
    now = TOLD_EVERY
    assert [halted(busy) for _ in range(2)] == [1, 0]


@pytest.mark.long
def test_of_many_that_open_a_breaker_at_once_one_learns_that_it_was_closed(shop: Shop) -> None:
    database, together = shop.database, Barrier(4)

    def trip(_: int) -> bool:
        together.wait(30)
        return circuit_breaker.trip(database, "mx", cause=Cause.SESSION, reason="away")

    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            assert sum(pool.map(trip, range(4))) == 1
            circuit_breaker.close(database, "mx")


def test_a_server_that_lacks_what_an_email_needs_is_an_error(
    shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    with Catcher(smtputf8=False) as plain:
        shop = shops.open(MAIL_PORT=plain.port)
        email = shop.enqueue("zoë@customers.example")
        drain(shop.runtime)
    [(text, level, values)] = events(caplog)
    assert "zoë" not in text
    assert level == logging.ERROR
    name = shop.runtime.servers[0].name
    assert values == {"event": "server_lacks", "server": name, "email_id": email.id}


def test_what_a_person_says_is_logged_too(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    unknown = stuck(shop, Status.UNKNOWN)
    caplog.clear()
    runner(shop)("resolve", unknown, "--as", "failed")
    [(_, _, values)] = events(caplog)
    assert values == {"event": "email_failed", "email_id": unknown, "cause": "resolved"}
