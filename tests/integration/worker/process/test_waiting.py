"""What nobody takes does not pile up: nudges, beat's sweeps and batches, on each broker."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from celery import Celery
from celery.beat import Scheduler
from flask import Flask

from outbox.celery_config import configure
from outbox.worker.broker.publisher import Publisher
from outbox.worker.broker.queues import LOW_QUEUE, MOST_SENDS, SEND_QUEUES, SWEEP_QUEUE
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop
from tests.support.system.system import DEADLINE, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.each_broker, pytest.mark.filterwarnings("ignore:.*socket.socket")]

MANY = 1000
FEW = 3
PROCESSES = 4


@pytest.fixture
def celery(broker: Broker) -> Iterator[Any]:
    app: Any = Celery("probe", set_as_current=True)
    app.config_from_object("celeryconfig")
    app.conf.update(broker_url=broker.url)
    configure(app, Flask("probe"))
    yield app
    app.close()
    gc.collect()  # kombu leaves the sockets of lost connections to it: here, and in no other test


@pytest.fixture
def wired(shop: Shop, celery: Celery) -> Iterator[Shop]:
    """A shop with a Celery app and a broker."""
    shop.app.extensions["celery"] = celery
    yield shop
    shop.runtime.disconnect()


@pytest.mark.long
@pytest.mark.over_and_over
@pytest.mark.databases("sqlite")
def test_a_thousand_nudges_without_a_worker_are_one_message(wired: Shop, broker: Broker) -> None:
    published = [wired.runtime.publish_sweep() for _ in range(MANY)]
    assert (published, broker.waiting()) == ([True, *[False] * (MANY - 1)], 1)
    broker.empty()
    assert wired.runtime.publish_sweep(), "the next one is published when none waits any more"
    assert broker.waiting() == 1


@pytest.mark.long
def test_processes_that_nudge_at_once_leave_no_more_messages_than_they_are(
    celery: Celery, broker: Broker
) -> None:
    def nudge(publisher: Publisher) -> None:
        for _ in range(MANY // PROCESSES):
            publisher.send("outbox.sweep", SWEEP_QUEUE, most=1)
        publisher.close()

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(nudge, [Publisher(celery) for _ in range(PROCESSES)]))
    assert 1 <= broker.waiting() <= PROCESSES


@pytest.mark.parametrize("queue", [SWEEP_QUEUE, LOW_QUEUE])
def test_any_beat_leaves_one_message_where_no_worker_takes_it(
    celery: Any, broker: Broker, queue: str
) -> None:
    beat = Scheduler(celery)  # as Celery brings it: the task itself looks
    [entry] = [entry for entry in beat.schedule.values() if entry.options.get("queue") == queue]
    for _ in range(MANY // 10):
        beat.apply_async(entry, producer=beat.producer)
    # RabbitMQ may not have counted the last one yet: beat does not wait for its word.
    assert 1 <= broker.waiting() <= FEW
    broker.empty()
    beat.apply_async(entry, producer=beat.producer)
    wait_until(lambda: broker.waiting() == 1, DEADLINE, "the next one")
    beat.close()


@pytest.mark.long
@pytest.mark.brokers("redis")  # RabbitMQ takes ten seconds to start
def test_beat_publishes_again_when_its_broker_has_lost_the_connection(
    celery: Any, broker: Broker
) -> None:
    beat = Scheduler(celery)
    entry = beat.schedule["outbox.sweep"]
    beat.apply_async(entry, producer=beat.producer)
    broker.stop()
    broker.start()
    broker.empty()
    beat.apply_async(entry, producer=beat.producer)
    wait_until(lambda: broker.waiting() == 1, DEADLINE, "the next one")
    beat.close()


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_batches_that_nobody_takes_are_published_no_more(wired: Shop, broker: Broker) -> None:
    [queue, *_] = SEND_QUEUES.values()
    most = MOST_SENDS + wired.runtime.slots()
    said = [wired.runtime.publish("outbox.send", queue, "a token") for _ in range(most + 10)]
    assert said == [True] * most + [False] * 10
    assert broker.waiting() == most


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_a_worker_that_comes_back_sends_everything_by_the_one_sweep_that_waits(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    with running(database_url, broker, catcher) as system:
        for _ in range(20):
            system.newsletter(3)  # each commit nudges
        wait_until(lambda: broker.waiting() > 0, DEADLINE, "the first nudge")
        system.worker()
        system.wait_sent(60)
        assert set(catcher.copies().values()) == {1}
