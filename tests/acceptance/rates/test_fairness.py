"""Bulk email is not starved where other email keeps every slot busy."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from outbox import Priority, Status
from outbox.domain.scheduling.claim_plan import AGED
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.delay import Delay
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.recorder import Recorder
from tests.support.system.system import WINDOW, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("rabbitmq")]

NORMAL = 4000  # a minute of both slots' work at that distance
BULK = 4 * WINDOW


@pytest.mark.databases("postgresql")
def test_bulk_that_has_waited_long_goes_out_while_normal_email_fills_every_slot(
    database_url: str, broker: Broker, catcher: Catcher, recorder: Recorder
) -> None:
    with (
        Delay(recorder.port, 0.01) as distant,
        running(database_url, broker, catcher, MAIL_PORT=distant.port) as system,
    ):
        system.newsletter(NORMAL)
        system.newsletter(BULK, domain="bulk.example", priority=Priority.BULK)
        system.beat()
        system.worker()
        wait_until(lambda: len(recorder.stamps()) > 10 * WINDOW, 60, "both slots are busy")
        assert _bulk(recorder) == 0, "bulk took a slot from normal email"
        _let_bulk_age(system)
        wait_until(lambda: _bulk(recorder) == BULK, 60, lambda: f"bulk goes: {system.stats()}")
        waiting = system.stats().due[Priority.NORMAL]
        print(f"{len(recorder.stamps())} emails, {waiting} normal ones still wait")
    assert waiting > 0, "there was no competition any more"


def _bulk(recorder: Recorder) -> int:
    return sum(stamp.recipient.endswith("@bulk.example") for stamp in recorder.stamps())


def _let_bulk_age(system: System) -> None:
    """Have the bulk emails been due for so long that they no longer wait for a slot."""
    email, database = system.runtime.tables.email, system.runtime.database
    waiting = (email.c.priority == int(Priority.BULK)) & (email.c.status == Status.PENDING)
    older = update(email).where(waiting).values(due_at=email.c.due_at - timedelta(seconds=AGED))
    database.run(lambda connection: connection.execute(older))
