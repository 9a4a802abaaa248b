"""Publishing over a real broker: it arrives, or an error says in time that it may not have."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from outbox.worker.broker.publisher import BROKER_ERRORS, Publisher
from outbox.worker.broker.queues import SEND_QUEUES, SWEEP_QUEUE
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.brokers.rabbitmq import RabbitMQ
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.each_broker, pytest.mark.filterwarnings("ignore:.*socket.socket")]

SECONDS = 60  # far beyond the bound, far below for ever


@pytest.fixture
def publisher(broker: Broker) -> Iterator[Publisher]:
    app: Any = Celery("probe")
    app.config_from_object("celeryconfig")
    app.conf.update(broker_url=broker.url)
    made = Publisher(app)
    yield made
    made.close()
    gc.collect()  # kombu leaves the sockets of failed tries to it: here, and in no other test


def sweep(publisher: Publisher) -> None:
    publisher.send("outbox.sweep", SWEEP_QUEUE, most=100)


def waits(broker: Broker, messages: int) -> None:
    wait_until(lambda: broker.waiting() == messages, SECONDS, lambda: f"waits: {broker.waiting()}")


def test_what_is_published_waits_in_its_queue(publisher: Publisher, broker: Broker) -> None:
    sweep(publisher)
    for queue in SEND_QUEUES.values():
        publisher.send("outbox.send", queue, "a token", most=100)
    waits(broker, 4)


@pytest.mark.long
@pytest.mark.timeout(SECONDS, func_only=True)
def test_a_silent_broker_is_an_error_on_an_open_connection_and_on_a_new_one(
    publisher: Publisher, broker: Broker
) -> None:
    sweep(publisher)
    broker.freeze()
    for _ in range(2):  # the first one drops the connection
        with pytest.raises(BROKER_ERRORS, match=r"timed out|Timeout"):
            sweep(publisher)
    broker.thaw()
    broker.empty()
    sweep(publisher)
    waits(broker, 1)


@pytest.mark.long
@pytest.mark.timeout(300)  # RabbitMQ takes ten seconds to start, on a busy machine thirty
def test_a_broker_that_was_restarted_gets_the_next_message_without_an_error(
    publisher: Publisher, broker: Broker
) -> None:
    sweep(publisher)
    broker.stop()
    with pytest.raises(BROKER_ERRORS, match="refused"):
        sweep(publisher)
    broker.start()
    broker.empty()
    sweep(publisher)
    broker.stop()
    broker.start()
    broker.empty()
    sweep(publisher)  # over a connection that is gone
    waits(broker, 1)


@pytest.mark.brokers("rabbitmq")
def test_a_message_costs_rabbitmq_no_write_to_disk(publisher: Publisher, broker: RabbitMQ) -> None:
    sweep(publisher)
    broker.kill_9()
    broker.start()
    assert broker.waiting() == 0
