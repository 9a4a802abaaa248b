"""A garbled message is dropped, and the worker lives on: a real one, on each broker."""

from __future__ import annotations

import pytest

from outbox import Status
from tests.support import garbled
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.system import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.each_broker

QUEUE = "outbox.normal"
SECONDS = 60


@pytest.mark.long
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_takes_every_garbled_kind_and_then_sends_a_good_email(
    database_url: str, broker: Broker, catcher: Catcher, pool: str
) -> None:
    with running(database_url, broker, catcher, OUTBOX_NUDGE=False) as system:
        worker = system.worker(concurrency=1, pool=pool)
        garbled.put(broker, QUEUE, *garbled.KINDS)
        system.newsletter(1)
        system.runtime.publish("outbox.sweep", QUEUE)  # behind all of them

        def told() -> str:
            lines = worker.printed()
            return f"{system.counts()}, {lines.count('garbled')} dropped: {lines[-3000:]}"

        def is_over() -> bool:
            return not worker.running or system.counts() == {Status.SENT: 1}

        wait_until(is_over, SECONDS, told)
        assert worker.running, told()
        printed = worker.printed()
        assert printed.count("outbox: a garbled message for") == len(garbled.KINDS), told()
        for forged in (garbled.SECRET, "forged line", "Traceback"):
            assert forged not in printed
