"""Real workers beside a server that says nothing to contents: they send on, and end with it."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from outbox import Priority, Status
from tests.integration.worker.silence.silent_content import silence
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.steps.motion import server
from tests.support.system.app import db, outbox
from tests.support.system.system import System, running
from tests.support.waiting import wait_until

SECONDS = 60
PROCESSES = 2


def write_bad(system: System, count: int) -> None:
    with system.app.app_context():
        for number in range(count):
            message = EmailMessage()
            message["From"], message["To"] = "shop@shop.example", f"r{number}@bad.example"
            message["Subject"] = "An order"
            message.set_content("It is on its way.")
            outbox.enqueue(message, tag="bad", priority=Priority.NORMAL)
        db.session.commit()


@pytest.mark.long
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_they_send_the_others_and_a_shutdown_waits_for_the_late_replies(
    database_url: str, redis: RedisServer, catcher: Catcher, pool: str
) -> None:
    with silence() as silent:
        settings = {
            "OUTBOX_SERVERS": [server("silent", silent.port), server("well", catcher.port)],
            "OUTBOX_ROUTES": [
                {"name": "bad", "tag": "bad", "servers": ["silent"]},
                {"name": "rest", "servers": ["well"]},
            ],
            "OUTBOX_WINDOW": 1,
            "SLOW_SECONDS": 0.4,
        }
        with running(database_url, redis, catcher, **settings) as system:
            worker = system.worker(concurrency=PROCESSES, pool=pool)
            system.beat()
            write_bad(system, 12)
            wait_until(lambda: silent.contents >= PROCESSES, SECONDS, "all to be held")
            system.newsletter(50)
            wait_until(
                lambda: system.counts().get(Status.SENT) == 50, SECONDS, lambda: f"{system.stats()}"
            )
            worker.terminate()
            wait_until(lambda: "Warm shutdown" in worker.printed(), SECONDS, "the end to begin")
            assert worker.running
            assert system.counts()[Status.SENDING] > 0
            silent.released.set()
            assert worker.wait_exit(SECONDS) == 0
            ends = system.counts()
            assert ends.pop(Status.SENT) == 50 + silent.contents
            assert set(ends) <= {Status.PENDING, Status.CLAIMED}, "none is in doubt"
        assert silent.copies["taken"] == silent.contents
