"""Processes that Celery forks while their parent has, or had, a connection to the database."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from outbox.domain.fleet import SILENT
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.app import outbox
from tests.support.system.system import WINDOW, running

pytestmark = [pytest.mark.long, pytest.mark.one_broker("rabbitmq")]

MAILS = 16 * WINDOW
PROCESSES = 3


@pytest.mark.databases("postgresql")
def test_no_process_of_a_worker_uses_the_connection_of_its_parent(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    settings = {"OUTBOX_BATCH": WINDOW, "OUTBOX_SLOTS": PROCESSES, "CREATE_ALL": True}
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(MAILS)
        worker = system.worker(concurrency=PROCESSES)
        system.sweep()
        system.wait_sent(MAILS)
        assert "Error" not in worker.printed()
        assert set(catcher.copies().values()) == {1}
        assert system.counters() == {}
        email = system.runtime.tables.email.c
        each = select(email.attempts, email.crashes).distinct()
        charged = system.runtime.database.read(lambda c: c.execute(each).all())
        assert [tuple(row) for row in charged] == [(1, 0)]


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.each_driver
def test_processes_that_are_forked_while_their_parent_writes_its_row_send_as_usual(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    settings = {"OUTBOX_BATCH": WINDOW, "OUTBOX_LEASE": 30.0, "WORKER_BEATS": 0.02}
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(MAILS)
        worker = system.worker("--max-tasks-per-child=1")
        system.sweep()
        system.wait_sent(MAILS)
        assert set(catcher.copies().values()) == {1}
        assert system.counters() == {}
        assert "Error" not in worker.printed()
        assert "was not written" not in worker.printed()
        [found] = outbox.workers().living
        assert found.seen_seconds < SILENT
