"""A copy of a live outbox, with a worker and beat of its own, mails nobody by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outbox import Status
from outbox.domain.priority import Priority
from outbox.store.control import beat
from outbox.store.transitions.start import start
from outbox.store.transitions.window import advance
from tests.integration.instance.copies import copy_postgresql
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.steps.claims import claim_batch
from tests.support.system.app import outbox
from tests.support.system.system import DEADLINE, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.one_broker("redis"), pytest.mark.long]


@pytest.fixture
def server() -> Iterator[Postgres]:
    with Postgres(durable=False) as started:
        yield started


def leave_all_kinds(system: System) -> None:
    """Send one email; leave some due, some claimed, and one `sending`, as in mid-drain."""
    system.reset("first@example.com")
    worker = system.worker()
    system.wait_sent(1)
    worker.stop()
    system.newsletter(20)
    database = system.runtime.database
    [_] = claim_batch(database, Priority.NORMAL, 5, lease_seconds=1)
    [started] = claim_batch(database, Priority.NORMAL, 5, lease_seconds=1)
    batch = start(database, started.token, lease_seconds=1, worker="host:1")
    assert batch is not None
    advance(database, started.token, [], [batch.emails[0].id], worker="host:1")
    assert system.counts() == {
        Status.SENT: 1, Status.PENDING: 10, Status.CLAIMED: 9, Status.SENDING: 1
    }  # fmt: skip


def beats(system: System) -> float | None:
    database = system.runtime.database
    return database.read(lambda connection: beat.age(connection, database))


def test_a_dump_of_a_live_outbox_with_a_worker_and_beat_mails_nobody(
    server: Postgres, broker: Broker, catcher: Catcher
) -> None:
    source, target = server.new_database(), server.new_database()
    with running(source, broker, catcher) as system:
        leave_all_kinds(system)
    copy_postgresql(server, source, target)
    with running(target, broker, catcher) as copy:
        worker = copy.worker()
        copy.beat()
        wait_until(lambda: beats(copy) is not None, DEADLINE, "beat's tasks run in the copy")
        told = "outbox: nothing is sent: these tables were last used in another database"
        wait_until(lambda: told in worker.printed(), DEADLINE, "the worker says so")
        copy.reset("second@example.com")  # its commit nudges
        before = len(catcher.emails)
        assert before == 1
        assert outbox.health().problems[0] in worker.printed()

        assert outbox.restored().held == 21, "20 of the backup, and the second"
        wait_until(lambda: copy.counts()[Status.SENT] == 1, DEADLINE, "nothing else has changed")
        copy.reset("third@example.com")
        wait_until(lambda: copy.counts()[Status.SENT] == 2, DEADLINE, lambda: f"{copy.stats()}")
        assert [one.recipients for one in catcher.emails[1:]] == [("third@example.com",)]

        [of_news] = [one for one in outbox.held() if one.tag == "news"]
        assert of_news.emails == 20
        outbox.release(tag="news")
        wait_until(
            lambda: copy.counts() == {Status.SENT: 22, Status.PENDING: 1},
            DEADLINE,
            lambda: f"{copy.stats()}",
        )
        assert set(catcher.copies().values()) == {1}
