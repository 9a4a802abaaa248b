"""Whether urgent email waits, stirs, or may not go: what the others give way to."""

from __future__ import annotations

from datetime import timedelta

import pytest

from outbox import Priority
from outbox.store.control import pause
from outbox.store.queries.sweep import preemption as urgent
from outbox.store.queries.sweep.urgent_email import is_urgent_active
from outbox.store.transitions.rescue import rescue
from outbox.worker.capacity.claimable import are_left
from tests.integration.store.queries.test_lanes import GMAIL, close, swept
from tests.support.shop.shop import LEASE, START, Shop, Shops
from tests.support.shop.steps.giving_way import gives_way

pytestmark = pytest.mark.each_database


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """A shop with a rate for one domain."""
    return shops.open(OUTBOX_DOMAIN_RATES=GMAIL)


def stirs(shop: Shop, lane: str) -> bool:
    return is_urgent_active(shop.database, shop.runtime.lanes, lane)


def test_urgent_email_stirs_while_it_is_due_or_in_flight(shop: Shop) -> None:
    assert not stirs(shop, "@gmail.com")
    shop.enqueue("a@gmail.com", priority=Priority.URGENT, send_at=START + timedelta(days=36_500))
    assert not stirs(shop, "@gmail.com")
    shop.enqueue("a@gmail.com", priority=Priority.URGENT)
    for _ in range(2):
        assert stirs(shop, "@gmail.com")
        assert stirs(shop, "gone@gmail.com"), "it draws on the domain's bucket, too"
        assert not stirs(shop, "")
        swept(shop)
    shop.later(1000)
    assert not stirs(shop, "@gmail.com")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine takes, no email is left for long but by the test's own clock."""
    monkeypatch.setattr(urgent, "_UNCLAIMED", 60.0)


def waits(shop: Shop, slots: int) -> bool:
    return gives_way(shop, slots=slots)


def test_urgent_email_waits_only_where_no_slot_is_free(shop: Shop) -> None:
    shop.enqueue("n@x.example")
    (normal,) = swept(shop)
    assert not waits(shop, 1)
    shop.enqueue("a@x.example", priority=Priority.URGENT)
    assert waits(shop, 1)
    assert not waits(shop, 2)

    (urgent,) = swept(shop)  # beyond the slots: published, and no process is free for it
    assert (normal.priority, urgent.priority) == (Priority.NORMAL, Priority.URGENT)
    assert waits(shop, 1)
    shop.later(-0.3)  # whatever the machine took so far
    assert not waits(shop, 2), "once one batch has given way, the others need not"
    shop.later(0.7)
    assert waits(shop, 2), "a busy worker holds its task"
    shop.start(urgent.token)
    assert not waits(shop, 2)
    assert not waits(shop, 1)


def test_urgent_email_that_nobody_claims_waits_though_a_slot_is_free(shop: Shop) -> None:
    """Every process is busy, so that none sweeps: slots say nothing about processes."""
    shop.enqueue("n@x.example")
    swept(shop)
    shop.enqueue("a@x.example", priority=Priority.URGENT)
    assert not waits(shop, 9)
    shop.later(61)
    assert waits(shop, 9)
    swept(shop)
    assert not waits(shop, 9)


@pytest.mark.matrix
@pytest.mark.parametrize("held", ["paused", "closed"])
def test_urgent_email_that_may_not_go_has_nobody_give_way(shop: Shop, held: str) -> None:
    shop.enqueue("n@x.example")
    swept(shop)
    shop.enqueue("a@gmail.com", priority=Priority.URGENT)
    assert waits(shop, 1)
    if held == "paused":
        shop.database.run(lambda c: pause.pause(c, shop.database, Priority.URGENT))
    else:
        close(shop, "domain:gmail.com")
    assert not waits(shop, 1)
    shop.later(61)
    assert not waits(shop, 1)


def bulk_waits(shop: Shop, slots: int) -> bool:
    return gives_way(shop, Priority.BULK, slots=slots)


def test_bulk_gives_way_to_normal_email_while_it_has_every_slot(shop: Shop) -> None:
    shop.enqueue("b@x.example", priority=Priority.BULK)
    swept(shop)
    assert not bulk_waits(shop, 1), "nothing else waits"
    shop.enqueue("n@x.example", send_at=START + timedelta(days=36_500))
    assert not bulk_waits(shop, 1), "it is not due"
    shop.enqueue("n@x.example")
    assert bulk_waits(shop, 1)
    assert not bulk_waits(shop, 2), "there is a slot for it"
    assert not waits(shop, 1), "normal email does not give way to its like"


def test_bulk_gives_way_where_no_process_is_left_to_claim_normal_email(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.enqueue("b@x.example", priority=Priority.BULK)
    swept(shop)
    shop.enqueue("n@x.example")
    assert not bulk_waits(shop, 2)
    monkeypatch.setattr(urgent, "_UNCLAIMED", 0.0)
    assert bulk_waits(shop, 2)


def test_one_batch_of_normal_email_is_enough_for_bulk_to_go_on(shop: Shop) -> None:
    shop.enqueue("b@x.example", priority=Priority.BULK)
    swept(shop)
    shop.enqueue("n@x.example")
    (normal,) = swept(shop)
    shop.enqueue("o@x.example")
    shop.later(-0.3)  # whatever the machine took so far
    assert not bulk_waits(shop, 1), "its task is on its way"
    shop.later(0.7)
    assert bulk_waits(shop, 1), "a busy worker holds its task"
    shop.start(normal.token)
    assert not bulk_waits(shop, 1)


def test_bulk_gives_way_to_urgent_email_like_any_other(shop: Shop) -> None:
    shop.enqueue("b@x.example", priority=Priority.BULK)
    swept(shop)
    shop.enqueue("u@x.example", priority=Priority.URGENT)
    assert bulk_waits(shop, 1)
    assert not bulk_waits(shop, 2)


def test_bulk_does_not_give_way_to_email_that_cannot_go(shop: Shop) -> None:
    shop.enqueue("b@x.example", priority=Priority.BULK)
    swept(shop)
    shop.enqueue("n@x.example")
    shop.database.run(lambda c: pause.pause(c, shop.database, Priority.NORMAL))
    assert not bulk_waits(shop, 1)


def test_an_email_is_left_while_nobody_claims_it_or_starts_its_batch(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(urgent, "_LEFT", 10.0)
    shop.enqueue("a@x.example")
    shop.later(-1)
    assert not are_left(shop.runtime)
    shop.later(12)
    assert are_left(shop.runtime)
    (made,) = swept(shop)
    assert not are_left(shop.runtime), "its task is on its way"
    shop.later(11)
    assert are_left(shop.runtime), "a busy process holds its task"
    shop.start(made.token)
    assert not are_left(shop.runtime)


def test_an_email_of_a_lost_worker_is_left_while_no_sweep_comes_by(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(urgent, "_LEFT", 10.0)
    look, term = (shop.database, shop.runtime.settings), shop.runtime.settings.lease
    shop.enqueue("a@x.example")
    shop.started()
    assert not are_left(shop.runtime)
    shop.later(LEASE + 1)
    assert not are_left(shop.runtime), "a sweep is to come"
    shop.later(10)
    assert are_left(shop.runtime)
    rescue(*look, random=lambda: 0.5)
    assert not are_left(shop.runtime), "its worker may still renew"
    shop.later(term + 1)
    assert not are_left(shop.runtime), "a sweep is to come again"
    shop.later(10)
    assert are_left(shop.runtime)
    assert rescue(*look, random=lambda: 0.5).emails == 1
