"""A worker that loses its broker goes on with its windows, whatever the app does with its tasks."""

from __future__ import annotations

import re

import pytest

from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.system import WINDOW, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("rabbitmq")]

CANCELS = "worker.cancel_long_running_tasks_on_connection_loss=yes"


@pytest.mark.databases("postgresql")
def test_a_worker_that_cancels_the_app_s_tasks_ends_none_in_its_window(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    gate = catcher.hold_at("reply")  # accepted, and the reply comes after the broker is back
    settings = {"OUTBOX_NUDGE": False, "OUTBOX_LEASE": 60.0}
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(WINDOW)
        worker = system.worker(CANCELS, concurrency=1)
        system.sweep()
        wait_until(lambda: gate.reached == 1, 60, "the server has the first email")
        broker.stop()
        wait_until(lambda: "Trying to re-establish" in worker.printed(), 60, "the broker is lost")
        broker.start()
        gate.open()
        system.wait_sent(WINDOW)
        assert set(system.catcher.copies().values()) == {1}
        assert "came_into_doubt" not in system.counters()


THREADS = 4
TALKS = (
    "--prefetch-multiplier=1",
    "--loglevel=DEBUG",
    "worker.log_format=%(threadName)s: %(message)s",
)
FEWER, AS_MANY = "Temporarily reducing the prefetch count", "Prefetch count has been restored"


@pytest.mark.databases("postgresql")
def test_only_the_main_thread_talks_to_a_broker_that_is_back(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    """After each task it takes one message more. It would hang if the task's thread said so."""
    gate = catcher.hold_at("reply")
    settings = {"OUTBOX_SLOTS": THREADS, "OUTBOX_BATCH": WINDOW, "OUTBOX_LEASE": 60.0}
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(THREADS * WINDOW)
        worker = system.worker(*TALKS, concurrency=THREADS, pool="threads")
        system.sweep()
        wait_until(lambda: gate.reached == THREADS, 60, "each thread is in the midst of a batch")
        broker.stop()
        wait_until(lambda: FEWER in worker.printed(), 60, "it takes fewer messages")
        broker.start()
        gate.open()
        system.wait_sent(THREADS * WINDOW)
        system.newsletter(THREADS * WINDOW)
        system.sweep()
        system.wait_sent(2 * THREADS * WINDOW)
        wait_until(lambda: AS_MANY in worker.printed(), 60, "it takes as many as before")
        speakers = set(re.findall(r"^(.+): basic\.qos: ", worker.printed(), re.MULTILINE))
        assert speakers == {"MainThread"}
