"""A person's transaction that stays open keeps no halted server from being asked again."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import pytest
from sqlalchemy import update

from outbox import Priority, Status
from outbox.domain.delivery.breaker_timing import OPEN_FIRST, Cause
from outbox.store.control import circuit_breaker
from outbox.store.control.blame import comparison
from outbox.store.records import Claim
from outbox.store.transitions.claim import claim_probe
from outbox.worker.sweep import sweep
from tests.integration.store.locks import hold, in_time, no_waiting
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, Shop, Shops

pytestmark = pytest.mark.databases("postgresql", "mariadb")

SERVER = "127.0.0.1:1"


def halted(workers: Shops, suspect: int) -> Shop:
    """Open a worker's shop whose server has halted this email, and may be asked again."""
    worker = workers.open()
    cause = Cause.EMAILS
    circuit_breaker.trip(worker.database, SERVER, cause=cause, reason="451", suspect_id=suspect)
    worker.later(OPEN_FIRST + 0.1)
    return worker


def probes(worker: Shop) -> list[Claim]:
    made: list[Claim] = []
    sweep(worker.runtime, made.append)
    assert all(claim.is_probe for claim in made)
    return made


@pytest.mark.long
@pytest.mark.parametrize("at_once", [1, comparison.AT_ONCE])
def test_a_sweep_probes_with_the_best_email_that_nobody_holds(
    shop: Shop, workers: Shops, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(comparison, "AT_ONCE", at_once)
    suspect, *locked = (shop.enqueue(f"a@{name}.example") for name in ("one", "two", "three"))
    alike = shop.enqueue("b@one.example")
    worker = halted(workers, suspect.id)
    with shop.session() as session, no_waiting(worker):
        for email in locked:  # one by one: for a list MariaDB locks the whole small table
            hold(shop, session, email.id)
        assert len(in_time(lambda: probes(worker), session)) == 1
    assert shop.statuses() == ["pending", "pending", "pending", "claimed"]
    assert shop.status(alike.id) is Status.CLAIMED


def test_a_sweep_takes_no_probe_while_every_email_is_locked(shop: Shop, workers: Shops) -> None:
    """Then the server is asked as soon as that transaction ends, and not one pause later."""
    emails = [shop.enqueue() for _ in range(3)]
    worker = halted(workers, emails[0].id)
    with shop.session() as session, no_waiting(worker):
        hold(shop, session, *(email.id for email in emails))
        assert in_time(lambda: probes(worker), session) == []
        (row,) = shop.rows(shop.tables.breaker)
        assert row.failures == 1
    assert len(probes(worker)) == 1


def test_an_email_that_is_locked_after_it_was_chosen_is_not_claimed(
    shop: Shop, workers: Shops
) -> None:
    email, worker = shop.enqueue(), workers.open()
    with shop.session() as session, no_waiting(worker):
        hold(shop, session, email.id)
        way = ("", Priority.NORMAL)
        claim = partial(claim_probe, worker.database, way, [email.id], lease_seconds=LEASE)
        assert in_time(claim, session) is None
    assert shop.status(email.id) is Status.PENDING
    assert shop.count(shop.tables.lease) == 0


def test_no_sweep_waits_for_a_host_that_vanished_while_it_wrote_of_a_server(
    shop: Shop, workers: Shops
) -> None:
    """The server's row stays locked until the database notices. Then the server is asked again."""
    email = shop.enqueue()
    worker = halted(workers, email.id)
    with shop.session() as session, no_waiting(worker):
        session.execute(update(shop.tables.breaker).values(reason="the host was cut off here"))
        assert in_time(lambda: probes(worker), session) == []
    assert len(probes(worker)) == 1


@pytest.mark.long
def test_no_rescue_of_a_probe_waits_for_a_host_that_vanished_while_it_wrote_of_a_server(
    shop: Shop, workers: Shops
) -> None:
    email = shop.enqueue()
    worker = halted(workers, email.id)
    assert len(probes(worker)) == 1  # no task ever starts it
    with shop.session() as session, no_waiting(worker):
        session.execute(update(shop.tables.breaker).values(reason="the host was cut off here"))
        worker.later(LEASE + 1)
        assert in_time(lambda: probes(worker), session) == []
        assert shop.status(email.id) is Status.PENDING
    assert len(probes(worker)) == 1


@pytest.mark.long
@pytest.mark.parametrize("why", ["locked", "refused"])
def test_a_prober_that_died_keeps_no_other_away_while_its_email_cannot_be_judged(
    shop: Shop, workers: Shops, why: str
) -> None:
    suspect, first = shop.enqueue("a@one.example"), shop.enqueue("b@other.example")
    worker = halted(workers, suspect.id)
    (made,) = probes(worker)
    assert worker.start(made.token)
    assert worker.open(made.token, first.id) == {first.id}
    with ExitStack() as ends:
        session = ends.enter_context(shop.session())
        if why == "locked":
            ends.enter_context(no_waiting(worker))
            hold(shop, session, first.id)
        else:
            ends.enter_context(refusing(shop.engine, "outbox_email", f"OLD.id = {first.id}"))
        for _ in range(2):  # the lease runs out; one lease later the email would be judged
            worker.later(LEASE + 1)
            assert in_time(lambda: probes(worker), session) == []
        assert shop.email_row(first.id).token == made.token
        (again,) = in_time(lambda: probes(worker), session)
        (row,) = shop.rows(shop.tables.breaker)
        assert (shop.email_row(suspect.id).token, row.prober) == (again.token, again.token)
