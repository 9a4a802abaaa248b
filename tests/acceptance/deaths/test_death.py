"""Whatever dies, no email is lost, and no more are repeated than the windows can hold."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from outbox import Status
from tests.support.servers.celery_process import CeleryProcess
from tests.support.system.system import SLOTS, WINDOW, System
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.one_broker("redis"), pytest.mark.one_database("postgresql")]

READERS = 800


def under_way(system: System) -> tuple[list[str], CeleryProcess]:
    """Have a worker send the newsletter; return the readers and it once a tenth has arrived."""
    readers = system.newsletter(READERS)
    system.beat()
    worker, tenth = system.worker(), READERS // 10
    wait_until(lambda: len(system.catcher.emails) > tenth, 60, "the newsletter is under way")
    return readers, worker


def test_a_killed_worker_loses_no_email_and_repeats_at_most_its_open_windows(
    system: System,
) -> None:
    readers, worker = under_way(system)
    worker.kill_9()
    assert system.counts().get(Status.SENT, 0) < READERS, "the worker was killed too late to tell"
    system.worker()
    system.wait_sent(READERS)
    copies = system.catcher.copies()
    assert {recipient for recipient, _ in copies} == set(readers)
    repeated = sum(count - 1 for count in copies.values())
    assert repeated <= WINDOW * SLOTS
    assert max(copies.values()) <= 2


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_of_an_email_that_was_accepted_but_not_recorded_one_copy_more_goes_out(
    system: System,
) -> None:
    gate = system.catcher.hold_at("reply")  # accepted, and the reply never comes
    system.newsletter(1)
    worker = system.worker()
    wait_until(lambda: gate.reached == 1, 60, "the server has the email")
    worker.kill_9()
    gate.open()

    def is_in_doubt() -> bool:
        system.sweep()
        return system.counters().get("came_into_doubt") == 1

    wait_until(is_in_doubt, 60, "the email is in doubt")
    assert system.counts() == {Status.PENDING: 1}
    system.runtime.database.offset = 60  # past the backoff, for the sweep of this process
    assert system.app.test_cli_runner().invoke(args=["outbox", "drain"]).exit_code == 0
    system.wait_sent(1)
    assert list(system.catcher.copies().values()) == [2]
    first, second = system.catcher.emails
    assert first.content == second.content, "the same bytes, the same Message-ID"


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_under_hold_an_email_in_doubt_stays_unknown_and_is_not_sent_again(system: System) -> None:
    system.config["OUTBOX_ON_UNKNOWN"] = "hold"
    gate = system.catcher.hold_at("reply")
    system.newsletter(1)
    system.beat()
    worker = system.worker()
    wait_until(lambda: gate.reached == 1, 60, "the server has the email")
    worker.kill_9()
    gate.open()
    system.worker()
    wait_until(lambda: system.counts() == {Status.UNKNOWN: 1}, 60, "the email is unknown")
    assert list(system.catcher.copies().values()) == [1]


@pytest.mark.long
@pytest.mark.one_database("mariadb")
@pytest.mark.one_broker("rabbitmq")
def test_an_emptied_broker_repeats_and_loses_nothing(system: System) -> None:
    readers, _ = under_way(system)
    system.broker.empty()
    assert system.counts().get(Status.SENT, 0) < READERS, "it was emptied too late to tell"
    system.wait_sent(READERS)
    copies = system.catcher.copies()
    assert {recipient for recipient, _ in copies} == set(readers)
    assert set(copies.values()) == {1}


@pytest.mark.long
@pytest.mark.one_broker("rabbitmq")
@pytest.mark.one_database("postgresql")
@pytest.mark.databases("sqlite", "postgresql")
def test_an_smtp_outage_charges_no_attempt_and_all_is_delivered_after_it(system: System) -> None:
    readers, _ = under_way(system)
    system.catcher.stop()
    wait_until(lambda: system.halted(), 60, "the breaker opens")
    wait_until(lambda: system.stats().batches_in_flight == 0, 60, "all is given back")
    probes = lambda: system.halted()[0].failures >= 2  # noqa: E731
    wait_until(probes, 60, "a probe has failed too")
    assert system.counts().get(Status.PENDING, 0) > 0
    system.catcher.start()
    system.wait_sent(READERS)
    assert system.halted() == []
    assert {recipient for recipient, _ in system.catcher.copies()} == set(readers)
    doubted = system.counters().get("came_into_doubt", 0)
    charged = _attempts(system)
    # An email whose final dot was out when the server went is honestly in doubt, and alone charged.
    assert charged == READERS + doubted
    assert doubted <= SLOTS


def _attempts(system: System) -> int:
    email = system.runtime.tables.email
    total = select(func.sum(email.c.attempts))
    return int(system.runtime.database.run(lambda c: c.execute(total).scalar_one()))
