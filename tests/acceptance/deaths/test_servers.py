"""Two SMTP servers, and the first one dies with a newsletter on its way."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from outbox import Status
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.recorder import Recorder
from tests.support.system.system import SLOTS, WINDOW, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("redis")]

READERS = 1000
BEFORE = 200  # emails that the first server answers for; it accepts one more in each slot


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("policy", ["resend", "hold"])
def test_when_the_first_server_is_killed_all_goes_over_the_other_and_only_doubt_is_repeated(
    database_url: str, broker: Broker, catcher: Catcher, policy: str
) -> None:
    with Recorder(answers_for=BEFORE) as first, Recorder() as second:
        settings = {"OUTBOX_SERVERS": _servers(first, second), "OUTBOX_ON_UNKNOWN": policy}
        with running(database_url, broker, catcher, **settings) as system:
            readers = system.newsletter(READERS)
            system.beat()
            worker = system.worker()
            taken = BEFORE + SLOTS
            wait_until(lambda: len(first.stamps()) == taken, 60, "every slot has an email in doubt")
            first.kill_9()
            if policy == "hold":
                ends = {Status.SENT: READERS - SLOTS, Status.UNKNOWN: SLOTS}
                wait_until(lambda: system.counts() == ends, 60, lambda: f"ends: {system.stats()}")
            else:
                wait_until(lambda: len(second.stamps()) >= READERS - taken, 60, "all the others")
                worker.stop()
                system.runtime.database.offset = 60  # past the backoff, for this process
                system.app.test_cli_runner().invoke(args=["outbox", "drain"])
                system.wait_sent(READERS)
            repeats = SLOTS if policy == "resend" else 0
            assert _attempts(system) == READERS + repeats, (
                "but for the unknown ones nobody was charged"
            )
        copies = first.copies() + second.copies()
    assert set(copies) == set(readers)
    assert sum(count - 1 for count in copies.values()) == repeats <= SLOTS * WINDOW


def _servers(first: Recorder, second: Recorder) -> list[dict[str, object]]:
    return [
        {"name": name, "server": server.host, "port": server.port, "order": place}
        for place, (name, server) in enumerate([("first", first), ("second", second)], 1)
    ]


def _attempts(system: System) -> int:
    total = select(func.sum(system.runtime.tables.email.c.attempts))
    return int(system.runtime.database.run(lambda c: c.execute(total).scalar_one()))
