"""Emails that a person's open transaction holds keep their own places, and nobody else's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.orm import Session

from outbox import Priority, Status
from outbox.store.queries.sweep import preemption
from outbox.store.queries.sweep.sweep_snapshot import Snapshot, read_snapshot
from outbox.store.queries.sweep.urgent_email import is_urgent_active
from outbox.store.records import Claim
from outbox.store.transitions.claim import claim
from outbox.worker.drain import drain
from outbox.worker.sweep import sweep
from tests.integration.store.locks import in_time, no_waiting
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.giving_way import gives_way
from tests.support.shop.steps.motion import write

pytestmark = pytest.mark.databases("postgresql", "mariadb")

URGENT, NORMAL, BULK = Priority
SLOTS = 2
LONG = 2.0  # seconds after which due email counts only if nobody holds it
MANY = 20 * SLOTS  # emails of which a window's worth is planned for each slot


def withdraw(shop: Shop, session: Session, tag: str = "locked") -> int:
    """Withdraw all emails with this tag, without a commit."""
    return shop.outbox.cancel(tag=tag, session=session)


def claimed(worker: Shop) -> dict[Priority, int]:
    """Sweep once; return how many emails of each priority were claimed."""
    made: list[Claim] = []
    sweep(worker.runtime, made.append)
    assert len(made) <= SLOTS + 1  # one urgent batch may go beyond the slots
    return {one: sum(c.emails for c in made if c.priority is one) for one in Priority}


@pytest.mark.parametrize(("locked", "other"), [(URGENT, NORMAL), (URGENT, BULK), (NORMAL, BULK)])
def test_emails_that_are_locked_take_no_slot_from_less_urgent_ones(
    shop: Shop, workers: Shops, locked: Priority, other: Priority
) -> None:
    write(shop, MANY, priority=locked, tag="locked")
    write(shop, 5, priority=other)
    worker = workers.open(OUTBOX_SLOTS=SLOTS)
    with shop.session() as session, no_waiting(worker):
        assert withdraw(shop, session) == MANY
        assert in_time(lambda: claimed(worker), session)[other] == 5
        session.rollback()
    assert claimed(worker)[locked] > 0


@pytest.mark.long
def test_what_is_free_among_emails_that_are_locked_goes_first(shop: Shop, workers: Shops) -> None:
    for priority in Priority:
        write(shop, MANY, priority=priority, tag="locked")
        write(shop, 3, priority=priority)
    worker = workers.open(OUTBOX_SLOTS=SLOTS)
    with shop.session() as session, no_waiting(worker):
        assert withdraw(shop, session) == 3 * MANY
        assert in_time(lambda: claimed(worker), session) == {URGENT: 3, NORMAL: 3, BULK: 0}


@pytest.mark.long
def test_locked_emails_of_more_lanes_than_slots_take_none(shop: Shop, workers: Shops) -> None:
    """The lane behind them is counted, too, and gets as many slots as it can use."""
    names = [f"d{number}.example" for number in range(12)]
    worker = workers.open(OUTBOX_SLOTS=SLOTS, OUTBOX_DOMAIN_RATES=dict.fromkeys(names, "9/s"))
    for name in names:
        worker.enqueue(f"a@{name}", priority=URGENT, tag="locked")
    write(shop, MANY, priority=URGENT)
    with shop.session() as session, no_waiting(worker):
        assert withdraw(shop, session) == len(names)
        assert in_time(lambda: claimed(worker), session) == {URGENT: MANY, NORMAL: 0, BULK: 0}


def test_a_drain_sends_all_that_nobody_holds(shop: Shop, workers: Shops, catcher: Catcher) -> None:
    write(shop, MANY, priority=URGENT, tag="locked")
    write(shop, 5)
    worker = workers.open(OUTBOX_SLOTS=SLOTS, MAIL_PORT=catcher.port)
    with shop.session() as session, no_waiting(worker):
        assert withdraw(shop, session) == MANY
        in_time(lambda: drain(worker.runtime), session)
        assert len(catcher.emails) == 5


def test_what_was_claimed_is_handed_out_though_the_second_look_fails(
    shop: Shop, workers: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(shop, MANY, priority=URGENT, tag="locked")
    free = shop.enqueue(priority=URGENT)
    worker = workers.open(OUTBOX_SLOTS=SLOTS)

    def once(*args: Any, **options: Any) -> Snapshot:
        monkeypatch.setattr("outbox.worker.sweep.read_snapshot", fails)
        return read_snapshot(*args, **options)

    def fails(*_: Any, **__: Any) -> Snapshot:
        raise OSError("the database is away")

    monkeypatch.setattr("outbox.worker.sweep.read_snapshot", once)
    with shop.session() as session:
        withdraw(shop, session)
        assert in_time(lambda: claimed(worker), session)[URGENT] == 1
    assert shop.status(free.id) is Status.CLAIMED


def test_a_sweep_that_comes_after_another_takes_no_slot_that_is_taken(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds less than it has planned, too, and looks again; but nobody holds anything."""
    for priority in (URGENT, NORMAL):
        write(shop, MANY, priority=priority)
    shop.runtime.settings = replace(shop.runtime.settings, slots=SLOTS)

    def late(*args: Any, **options: Any) -> list[Claim]:
        monkeypatch.undo()
        assert claimed(shop) == {URGENT: MANY, NORMAL: 0, BULK: 0}
        return claim(*args, **options)

    monkeypatch.setattr("outbox.worker.sweep.claim", late)
    assert claimed(shop) == {URGENT: 0, NORMAL: 0, BULK: 0}


@pytest.mark.long
def test_no_batch_gives_way_to_emails_that_are_locked(shop: Shop, workers: Shops) -> None:
    names = {f"d{number}.example": "9/s" for number in range(3)}
    worker = workers.open(OUTBOX_SLOTS=1, OUTBOX_DOMAIN_RATES=names)
    locked = [worker.enqueue(f"a@{name}", priority=URGENT, tag="locked").id for name in names]
    worker.later(LONG)  # no process has claimed them for long
    lanes = worker.runtime.lanes
    shared = shop.email_row(locked[0]).lane

    def looks() -> list[bool]:
        return [
            gives_way(worker, slots=1),
            gives_way(worker, Priority.BULK, slots=1),
            is_urgent_active(worker.database, lanes, shared),
        ]

    assert looks() == [True, True, True]
    with shop.session() as session, no_waiting(worker):
        assert withdraw(shop, session) == len(names)
        assert in_time(looks, session) == [False, False, False]
        worker.enqueue("b@d0.example", priority=URGENT)
        worker.later(LONG)
        assert in_time(looks, session) == [True, True, True]


@pytest.mark.long
def test_no_batch_gives_way_to_emails_that_are_locked_for_a_moment(
    shop: Shop, workers: Shops
) -> None:
    """Many short transactions, one after another, would have it give way all the time."""
    worker = workers.open()
    shop.enqueue(priority=URGENT, tag="locked")

    def looks() -> list[bool]:
        return [
            gives_way(worker, slots=0),
            gives_way(worker, Priority.BULK, slots=0),
        ]

    assert looks() == [True, True]
    with shop.session() as session, no_waiting(worker):
        assert withdraw(shop, session) == 1
        assert in_time(looks, session) == [False, False]
        worker.enqueue(priority=URGENT)
        assert in_time(looks, session) == [True, True]


def test_bulk_does_not_give_way_to_normal_emails_that_are_locked(
    shop: Shop, workers: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preemption, "_UNCLAIMED", 60.0)
    shop.enqueue(tag="locked")
    worker = workers.open()
    worker.later(61)

    def yields() -> bool:
        return gives_way(worker, Priority.BULK, slots=9)

    assert yields()
    with shop.session() as session, no_waiting(worker):
        assert withdraw(shop, session) == 1
        assert not in_time(yields, session)
        worker.enqueue()
        assert not in_time(yields, session), "there is a slot for it, and a sweep may come"
        worker.later(61)
        assert in_time(yields, session)
