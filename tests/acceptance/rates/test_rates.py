"""Rates over real workers: what is claimed, sent and accepted, and when."""

from __future__ import annotations

import pytest

from outbox import Status
from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.control.rate_limits import take
from outbox.worker.broker.queues import SWEEP_QUEUE
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import message
from tests.support.system.app import db, outbox
from tests.support.system.system import running

pytestmark = [pytest.mark.long, pytest.mark.one_broker("rabbitmq")]


@pytest.mark.databases("postgresql")
def test_a_worker_sweeps_when_a_closed_lane_opens_without_beat_and_without_a_nudge(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    with running(database_url, broker, catcher, OUTBOX_RATE="1/s", OUTBOX_NUDGE=False) as system:
        system.worker()
        outbox.enqueue(message())
        db.session.commit()
        take(system.runtime.database, {}, debts={"all": (Rate(1, 5), 1)})
        system.runtime.publish("outbox.sweep", SWEEP_QUEUE)  # the only one, while it is closed
        system.wait_sent(1)
        assert system.counts() == {Status.SENT: 1}
