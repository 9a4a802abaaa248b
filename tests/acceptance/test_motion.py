"""The drain runs by itself, overlapping sweeps and stale tasks do no harm, shutdown is clean."""

from __future__ import annotations

from email.message import EmailMessage
from uuid import uuid4

import pytest

from outbox import Status
from outbox.domain.priority import Priority
from outbox.store.control import beat
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.steps.claims import claim_batch
from tests.support.system.app import Order, db, outbox
from tests.support.system.system import SLOTS, WINDOW, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.one_broker("redis"), pytest.mark.one_database("postgresql")]


def beat_age(system: System) -> float | None:
    database = system.runtime.database
    return database.read(lambda connection: beat.age(connection, database))


@pytest.mark.one_database("sqlite")
def test_one_nudge_starts_a_drain_that_needs_no_beat_to_go_on(system: System) -> None:
    system.worker()
    system.newsletter(400)  # eight batches for two slots; their commit nudges
    system.wait_sent(400)
    assert set(system.catcher.copies().values()) == {1}
    assert beat_age(system) is None, "no sweep was beat's"


@pytest.mark.long
@pytest.mark.one_database("sqlite")
def test_two_beats_and_two_workers_claim_no_email_twice(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    # Nobody dies here: a task that a busy machine is late with must not look as if somebody had.
    with running(database_url, broker, catcher, OUTBOX_LEASE=60.0) as system:
        system.newsletter(1000)
        system.beat()
        system.beat()
        system.worker()
        system.worker()
        system.wait_sent(1000)
        assert set(catcher.copies().values()) == {1}
        assert system.counters() == {}
        wait_until(lambda: beat_age(system) is not None, 60, "a sweep of beat leaves its mark")


@pytest.mark.long
@pytest.mark.one_broker("rabbitmq")
@pytest.mark.databases("postgresql")
def test_a_task_that_comes_twice_late_or_forged_changes_nothing_and_is_counted(
    system: System,
) -> None:
    system.newsletter(10)
    runtime = system.runtime
    [made] = claim_batch(runtime.database, Priority.NORMAL, 10, lease_seconds=60)
    system.worker()
    for token in (str(made.token), str(made.token), str(uuid4()), "no token"):
        runtime.publish("outbox.send", "outbox.normal", token)
    stale = lambda: system.counters().get("stale_tasks") == 2  # noqa: E731
    wait_until(stale, 60, lambda: f"the second and the forged task are counted: {system.stats()}")
    system.wait_sent(10)
    assert set(system.catcher.copies().values()) == {1}


@pytest.mark.long
@pytest.mark.one_broker("rabbitmq")
@pytest.mark.databases("postgresql")
def test_a_task_whose_lease_ran_out_while_it_waited_sends_nothing(system: System) -> None:
    system.newsletter(10)
    runtime = system.runtime
    [made] = claim_batch(runtime.database, Priority.NORMAL, 10, lease_seconds=1)
    system.beat()
    worker = system.worker()
    system.wait_sent(10)  # by another claim, after the rescue
    runtime.publish("outbox.send", "outbox.normal", str(made.token))
    stale = lambda: system.counters().get("stale_tasks") == 1  # noqa: E731
    wait_until(stale, 60, "the late task is counted")
    assert set(system.catcher.copies().values()) == {1}
    assert worker.running


@pytest.mark.long
@pytest.mark.one_database("mariadb")
@pytest.mark.one_broker("rabbitmq")
def test_a_warm_shutdown_finishes_the_open_window_and_gives_the_rest_back_uncharged(
    system: System,
) -> None:
    gate = system.catcher.hold_at("reply")
    system.newsletter(200)
    worker = system.worker()
    wait_until(lambda: gate.reached == SLOTS, 60, "every slot is in its first window")
    worker.terminate()
    wait_until(lambda: "shutdown" in worker.printed().lower(), 60, "the worker heard the signal")
    gate.open()
    worker.wait_exit()
    counts = system.counts()
    assert counts.get(Status.SENT, 0) == SLOTS * WINDOW
    assert counts == {Status.SENT: SLOTS * WINDOW, Status.PENDING: 200 - SLOTS * WINDOW}
    assert system.stats().batches_in_flight == 0
    system.worker()
    system.runtime.nudge.wake()
    system.wait_sent(200)
    assert set(system.catcher.copies().values()) == {1}


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_worker_that_slept_through_its_lease_sends_nothing_more_and_its_verdict_still_counts(
    system: System,
) -> None:
    gate = system.catcher.hold_at("reply")
    system.newsletter(WINDOW)
    system.beat()
    sleeper = system.worker(concurrency=1)
    wait_until(lambda: gate.reached == 1, 60, "the server has the first email")
    sleeper.freeze()

    def is_rescued() -> bool:
        system.sweep()
        return system.counters().get("leases_rescued") == 1

    wait_until(is_rescued, 60, "its lease is rescued")
    assert system.counters()["came_into_doubt"] == WINDOW
    gate.open()
    sleeper.thaw()
    resolved = lambda: system.counts().get(Status.SENT) == 1  # noqa: E731
    wait_until(resolved, 60, lambda: f"the late 250 resolves its own doubt: {system.counts()}")
    assert len(system.catcher.emails) == 1, "the rest of its window was not sent"
    assert system.counters()["lease_lost"] >= 1


@pytest.mark.long
@pytest.mark.one_database("mariadb")
@pytest.mark.one_broker("rabbitmq")
def test_an_order_and_its_email_commit_and_roll_back_together(system: System) -> None:
    def order(customer: str) -> None:
        message = EmailMessage()
        message["From"], message["To"] = "shop@shop.example", f"{customer}@example.com"
        message.set_content("Thank you.\n")
        db.session.add(Order(customer=customer))
        outbox.enqueue(message)

    system.worker()
    order("fails")
    db.session.rollback()
    order("pays")
    db.session.commit()
    system.wait_sent(1)
    assert [mail.recipients for mail in system.catcher.emails] == [("pays@example.com",)]
    assert [row.customer for row in db.session.query(Order)] == ["pays"]
    db.session.rollback()


@pytest.mark.long
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("outage", ["stopped", "silent"])
def test_without_a_broker_a_commit_raises_nothing_and_the_email_goes_out_when_it_is_back(
    system: System, outage: str
) -> None:
    system.worker()
    system.beat()
    if outage == "stopped":
        system.broker.stop()
    else:
        system.broker.freeze()
    system.newsletter(1)  # enqueues and commits; the outage must not reach the request
    assert system.counts() == {Status.PENDING: 1}
    if outage == "stopped":
        system.broker.start()
    else:
        system.broker.thaw()
    system.wait_sent(1)
    assert set(system.catcher.copies().values()) == {1}
