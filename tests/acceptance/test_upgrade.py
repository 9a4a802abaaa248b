"""Workers of two versions on one table and one broker: upgrade, death in the middle, rollback.

The older code is a commit of this repository, so the tests need a clone with its history. It runs
in the same environment. When a version is released, `OLDER` becomes its commit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import select

from outbox import Status
from outbox.domain.priority import Priority
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.delay import Delay
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.steps.claims import claim_batch
from tests.support.system.system import DEADLINE, ROOT, SLOTS, WINDOW, System, running
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.one_broker("redis"),
    pytest.mark.one_database("postgresql"),
]

OLDER = "238bdf3c5a0f3c45316e442dc209d318739bd2a2"
"""The commit before whose successor the schema had no version."""

READERS = 800
AFTERWARDS = 200

_RENAMED = {
    "deliveries": "crashes",
    "max_deliveries": "max_crashes",
    "doubts": "unknown_count",
    "doubt_token": "unknown_token",
    "mails": "emails",
}
"""What version 6 of the schema renamed. The older code is given the new names, or it could not run
beside this one."""
_OLD_NAME = re.compile(rf"\b({'|'.join(_RENAMED)})\b")

_OURS = (
    Path("tests", "support", "celery_app.py"),
    Path("tests", "support", "system", "app.py"),
)
"""The app, which is the tests' own."""

_BEGIN = """
import json, os, sys
from email.message import EmailMessage
from tests.support.system.app import create_app, db, outbox

app = create_app(json.loads(os.environ["ACCEPTANCE_CONFIG"]))
print(sys.modules["outbox"].__file__)
"""

_ENQUEUE = """
message = EmailMessage()
message["From"], message["Subject"] = "news@shop.example", "News"
message.set_content("All the news.")
with app.app_context():
    addresses = [f"reader-{number}@{sys.argv[1]}.example" for number in range(int(sys.argv[2]))]
    outbox.enqueue_many(message, addresses)
    db.session.commit()
"""

_PUBLISH = """
app.extensions["outbox"].runtime.publish("outbox.send", "outbox.normal", sys.argv[1])
"""


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the older code."""
    tree = tmp_path_factory.mktemp("older")
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", OLDER]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        said = made.stderr.decode().strip()
        pytest.fail(f"the older code is not here; take a clone with history ({said})")
    subprocess.run(["tar", "-x", "-C", str(tree)], input=made.stdout, check=True)
    for path in _OURS:
        tree.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tree / path)
    for file in tree.joinpath("outbox").rglob("*.py"):
        file.write_text(_OLD_NAME.sub(lambda found: _RENAMED[found[0]], file.read_text()))
    return tree


@pytest.fixture
def shared(database_url: str, broker: Broker, catcher: Catcher) -> Iterator[System]:
    """A system in which nobody dies: a task that a busy machine is late with must not look so."""
    with running(database_url, broker, catcher, OUTBOX_LEASE=60.0) as made:
        yield made


@pytest.mark.one_database("sqlite")
def test_two_versions_share_a_drain_and_either_may_die_in_it(
    database_url: str, broker: Broker, catcher: Catcher, older: Path
) -> None:
    # At this distance four slots send some 40 emails a second: a new worker has time to join in.
    with Delay(catcher.port, 0.01) as distant:
        settings = {"OUTBOX_SLOTS": 2 * SLOTS, "MAIL_PORT": distant.port}
        with running(database_url, broker, catcher, **settings) as shared:
            _share_a_drain(shared, distant, (older, ROOT))


def _share_a_drain(shared: System, distant: Delay, trees: tuple[Path, Path]) -> None:
    for tree in trees:
        shared.beat(tree=tree)
    workers = [shared.worker(tree=tree) for tree in trees]
    readers = shared.newsletter(READERS)
    for place, tree in enumerate(trees):
        both = lambda: all(map(_has_sent, [shared] * 2, workers))  # noqa: E731
        wait_until(both, DEADLINE, lambda: f"both are at work: {shared.stats()}")
        workers[place].kill_9()
        assert shared.counts().get(Status.SENT, 0) < READERS, "it was killed too late to tell"
        workers[place] = shared.worker(tree=tree)
    distant.come_near()  # all that had to meet has met
    shared.wait_sent(READERS)
    copies = Counter(recipient for recipient, _ in shared.catcher.copies().elements())
    assert set(copies) == set(readers)
    repeated = sum(copies.values()) - READERS
    print(f"{repeated} of {READERS} repeated after two kills")
    assert repeated <= 2 * WINDOW * SLOTS
    # A batch may end after its last email, and the lease of a killed worker runs out by itself.
    wait_until(lambda: shared.stats().batches_in_flight == 0, DEADLINE, "no batch is in flight")


def test_what_either_version_enqueues_the_other_sends(shared: System, older: Path) -> None:
    """Before the upgrade, after it, and after the rollback."""
    sent = 0
    for tree, other in ((older, ROOT), (ROOT, older)):
        _enqueue(shared, tree, "of-this" if tree == ROOT else "of-older")
        worker, beat = shared.worker(tree=other), shared.beat(tree=other)
        sent += AFTERWARDS
        shared.wait_sent(sent)
        assert _has_sent(shared, worker)
        worker.stop()
        beat.stop()
    assert set(shared.catcher.copies().values()) == {1}
    assert shared.counters() == {}


@pytest.mark.databases("postgresql")
def test_either_version_takes_the_other_s_tasks(shared: System, older: Path) -> None:
    """No beat, no sweep: these tasks alone can send the emails."""
    shared.newsletter(2 * WINDOW)
    database = shared.runtime.database
    [ours] = claim_batch(database, Priority.NORMAL, WINDOW, lease_seconds=60)
    [theirs] = claim_batch(database, Priority.NORMAL, WINDOW, lease_seconds=60)
    shared.runtime.publish("outbox.send", "outbox.normal", str(ours.token))
    worker = shared.worker(tree=older)
    wait_until(lambda: shared.counts().get(Status.SENT) == WINDOW, DEADLINE, "theirs takes ours")
    worker.stop()
    _publish(shared, older, theirs.token)
    shared.worker()
    shared.wait_sent(2 * WINDOW)
    assert set(shared.catcher.copies().values()) == {1}
    assert shared.counters() == {}


@pytest.mark.one_broker("rabbitmq")
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("version", ["older", "this"])
def test_a_task_of_a_version_to_come_is_refused_and_its_emails_are_sent_all_the_same(
    shared: System, older: Path, version: str
) -> None:
    shared.newsletter(2 * WINDOW)
    runtime = shared.runtime
    for task in ("outbox.send", "outbox.send_otherwise"):
        [made] = claim_batch(runtime.database, Priority.NORMAL, WINDOW, lease_seconds=1)
        runtime.publish(task, "outbox.normal", str(made.token), "an argument more")
    tree = older if version == "older" else ROOT
    worker = shared.worker(tree=tree)
    refusals = ("takes 2 positional arguments but 3 were given", "unregistered task")
    refused = lambda: all(text in worker.printed() for text in refusals)  # noqa: E731
    wait_until(refused, DEADLINE, "both are refused")
    shared.beat(tree=tree)
    shared.wait_sent(2 * WINDOW)
    assert set(shared.catcher.copies().values()) == {1}


def _has_sent(system: System, worker: CeleryProcess) -> bool:
    """Return whether the attempt log knows a process of this worker."""
    logged = select(system.runtime.tables.attempt.c.worker).distinct()
    names = system.runtime.database.run(lambda c: c.execute(logged).scalars().all())
    return bool({str(m.pid) for m in worker.processes()} & {n.rpartition(":")[2] for n in names})


def _enqueue(system: System, tree: Path, who: str) -> None:
    """Commit emails in a web process of the code in `tree`."""
    _run(system, tree, _ENQUEUE, who, str(AFTERWARDS))


def _publish(system: System, tree: Path, token: UUID) -> None:
    """Publish a send task in a process of the code in `tree`."""
    _run(system, tree, _PUBLISH, str(token))


def _run(system: System, tree: Path, program: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + program, *words],
        cwd=tree,
        env={**os.environ, **system.environment(tree)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path(done.stdout.strip()).parents[1] == tree, "another code was run"
