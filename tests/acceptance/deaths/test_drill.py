"""The drill: each of seven failures is told within 30 s, and one action ends it.

"Told" is on the overview and in `flask outbox check`, in the words of docs/how-to/drill.md. The
other deadlines of these tests only keep a failing one from waiting for ever.
"""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from outbox import Status
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.servers.smtp.scripted import GREET, ScriptedServer, expect, serve
from tests.support.system import drill_words
from tests.support.system.app import outbox
from tests.support.system.drill import Watcher
from tests.support.system.system import DEADLINE, System, running
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.one_database("postgresql"),
]

LIKE_A_SHOP = {"OUTBOX_SLOTS": None, "OUTBOX_LEASE": 30.0}
RIGHT = base64.b64encode(b"\0shop\0right").decode()


@pytest.fixture
def system(database_url: str, redis: RedisServer, catcher: Catcher) -> Iterator[System]:
    with running(database_url, redis, catcher, **LIKE_A_SHOP) as made:
        yield made


def sent_once(system: System, readers: list[str], *beside: Status) -> None:
    """Wait until all have ended, `sent` or as `beside`; assert that these readers got it once."""
    wait_until(
        lambda: set(system.counts()) == {Status.SENT, *beside},
        DEADLINE,
        lambda: f"everything to be sent: {system.stats()}",
    )
    copies = system.catcher.copies()
    got = {reader: sum(n for (to, _), n in copies.items() if to == reader) for reader in readers}
    assert got == dict.fromkeys(readers, 1)


def test_a_dead_beat_a_queue_without_a_worker_and_a_broker_that_is_gone(
    system: System, redis: RedisServer
) -> None:
    sweeps = system.worker("--queues", "outbox.sweep,outbox.urgent,outbox.low")
    sends = system.worker("--queues", "outbox.normal,outbox.bulk")
    beat = system.beat()
    person = Watcher(system)
    readers = system.newsletter(3)
    person.sees_all_is_well()

    beat.kill_9()
    person.sees(drill_words.BEAT)
    beat.start()
    person.sees_all_is_well()

    sends.stop()
    readers += system.newsletter(3, domain="late.example")
    person.sees(drill_words.QUEUE)
    assert 'href="/outbox/workers"' in person.remarks()
    sends.start()
    person.sees_all_is_well()
    sent_once(system, readers)

    redis.kill_9()
    readers += system.newsletter(3, domain="later.example")
    person.sees(drill_words.BROKER)
    redis.start()
    person.sees_all_is_well()
    sent_once(system, readers)
    assert sweeps.running


def test_a_wrong_password(database_url: str, redis: RedisServer, catcher: Catcher) -> None:
    with ScriptedServer() as server:
        server.otherwise = (GREET, expect("EHLO", "250-mx.example\n250 AUTH PLAIN"), login, serve)
        login_as = {
            "MAIL_PORT": server.port,
            "MAIL_USERNAME": "shop",
            "MAIL_PASSWORD": "wrong",
            "OUTBOX_CLEARTEXT_AUTH": True,
        }
        with running(database_url, redis, catcher, **LIKE_A_SHOP, **login_as) as system:
            worker, person = system.worker(), Watcher(system)
            system.beat()
            system.newsletter(1)
            person.sees(drill_words.PASSWORD)

            worker.stop()
            system.config["MAIL_PASSWORD"] = "right"
            system.worker()
            person.sees_all_is_well()
            system.wait_sent(1)
        assert len(server.bodies) == 1


def login(dialogue: Dialogue) -> None:
    """Let in who has the right password."""
    if dialogue.line() == f"AUTH PLAIN {RIGHT}":
        dialogue.say("235 2.7.0 welcome")
    else:
        dialogue.say("535 5.7.8 wrong user name or password")
        raise HangupError


def test_a_throttle_a_poison_message_and_a_restored_backup(
    database_url: str, redis: RedisServer, catcher: Catcher, postgres: Postgres
) -> None:
    quick = {"OUTBOX_SLOTS": None, "OUTBOX_BACKOFF": [1.0]}
    with running(database_url, redis, catcher, **quick) as system:
        worker, person = system.worker(), Watcher(system)
        beat = system.beat()
        throttled(person)
        poisoned(person, worker)
        for process in (worker, beat):
            process.stop()
        waiting = system.newsletter(2, domain="backup.example")
    backup = postgres.copy_of(database_url)
    try:
        with running(backup, redis, catcher, **quick) as system:
            restored(Watcher(system), waiting)
    finally:
        postgres.drop_database(backup)


def throttled(person: Watcher) -> None:
    """Have the provider throttle for a while."""
    catcher = person.system.catcher
    catcher.reply_to_recipient = lambda _: "421 4.7.0 Too many messages, slow down"
    readers = person.system.newsletter(3)
    person.sees(drill_words.THROTTLE)
    catcher.reply_to_recipient = lambda _: None
    person.sees_all_is_well()
    sent_once(person.system, readers)


def poisoned(person: Watcher, worker: CeleryProcess) -> None:
    """Enqueue a message at whose recipient the worker's process dies each time."""
    system, deaths = person.system, list[str]()

    def reply(recipient: str) -> str | None:
        if recipient.startswith("poison@"):
            deaths.append(recipient)
            for child in children(worker.pid):
                os.kill(child, signal.SIGKILL)
        return None

    system.catcher.reply_to_recipient = reply
    system.reset("poison@example.com")
    wait_until(lambda: len(deaths) == 2, DEADLINE, "the second death")
    person.sees(drill_words.POISON)
    readers = system.newsletter(3, domain="beside.example")  # it holds nobody up
    wait_until(lambda: system.counts().get(Status.UNKNOWN), DEADLINE, "its end")
    assert len(deaths) == 3
    person.sees(drill_words.SETTLE)
    [email] = outbox.list(status="unknown")
    assert f'href="/outbox/messages/{email.id}"' in person.remarks()
    page = f"/outbox/messages/{email.id}"
    person.press(f"{page}/resolve", page, outcome="failed")
    person.sees_all_is_well()
    assert "poison@example.com" not in {to for to, _ in system.catcher.copies()}
    sent_once(system, readers, Status.FAILED)


def children(pid: int) -> list[int]:
    """Return the processes that a worker's pool has."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def restored(person: Watcher, waiting: list[str]) -> None:
    """Start on a copy of the database, in which emails wait that may have gone out long ago."""
    system = person.system
    system.worker()
    system.beat()
    person.sees(drill_words.RESTORED)
    assert "new emails are sent" in person.command("restored")
    system.reset("new@example.com")
    person.sees(drill_words.HELD)
    wait_until(
        lambda: "new@example.com" in {to for to, _ in system.catcher.copies()}, DEADLINE, "the new"
    )
    assert not {to for to, _ in system.catcher.copies()}.intersection(waiting)
    assert "2 emails are released" in person.command("release", "--all")
    person.sees_all_is_well()
    sent_once(system, waiting, Status.FAILED)
