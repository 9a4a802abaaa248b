"""A busy worker keeps no task from one that is free, whichever broker it is."""

from __future__ import annotations

import pytest

from outbox.domain.priority import Priority
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.steps.claims import claim_batch
from tests.support.system.system import WINDOW, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("rabbitmq")]


@pytest.mark.databases("postgresql")
def test_a_free_worker_gets_the_batch_that_a_busy_one_has_no_process_for(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    gate = catcher.hold_at("reply")
    settings = {"OUTBOX_NUDGE": False, "OUTBOX_LEASE": 60.0}  # no sweep but the tasks' own
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(2 * WINDOW)
        system.worker(concurrency=1)
        for number in (1, 2):
            [made] = claim_batch(system.runtime.database, Priority.NORMAL, WINDOW, lease_seconds=60)
            system.runtime.publish("outbox.send", "outbox.normal", str(made.token))
            if number == 1:
                wait_until(lambda: gate.reached == 1, 60, "the first worker is busy")
        system.worker(concurrency=1)
        wait_until(lambda: gate.reached == 2, 30, "the second worker has the second batch")
        gate.open()
        system.wait_sent(2 * WINDOW)
        assert system.counters() == {}
