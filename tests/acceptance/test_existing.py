"""An app with a Celery app of its own gets an outbox: emails are sent, its own tasks go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.brokers.broker import Broker
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.existing import MARK, WAY
from tests.support.system.system import DEADLINE, ROOT, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.databases("sqlite")]

READERS = 8


@pytest.fixture
def system(database_url: str, broker: Broker, catcher: Catcher) -> Iterator[System]:
    """A system in which only beat sweeps, and at an interval of its own."""
    settings = {"OUTBOX_NUDGE": False, "OUTBOX_SWEEP_INTERVAL": 0.2, "OUTBOX_LEASE": 60.0}
    with running(database_url, broker, catcher, **settings) as made:
        yield made


@pytest.mark.one_broker("redis")
def test_by_one_call_of_configure(system: System, tmp_path: Path) -> None:
    _lives_beside_what_was_there(system, tmp_path, "configure")


@pytest.mark.brokers("rabbitmq")
def test_by_a_module_of_settings(system: System, tmp_path: Path) -> None:
    _lives_beside_what_was_there(system, tmp_path, "settings")


def _lives_beside_what_was_there(system: System, tmp_path: Path, way: str) -> None:
    mark, results = tmp_path / "mark", "celery-task-meta-*"
    # Celery takes pickles as root only if it is told to.
    environment = system.environment(ROOT) | {MARK: str(mark), WAY: way, "C_FORCE_ROOT": "1"}
    module = "tests.support.system.existing"
    with (
        CeleryProcess(module, "beat", environment=environment, warm=True) as beat,
        CeleryProcess(module, "worker", "-c2", environment=environment, warm=True) as worker,
    ):
        system.newsletter(READERS)
        system.wait_sent(READERS)
        wait_until(mark.exists, DEADLINE, "a run of the app's own task")
        said = worker.printed() + beat.printed()
    assert set(system.catcher.copies().values()) == {1}
    assert (system.counters(), system.stats().batches_in_flight) == ({}, 0)
    own = {"acks_late": True, "time_limit": 300.0, "serializer": "pickle", "queue": "reports"}
    assert json.loads(mark.read_text()) == own
    assert "SteadyScheduler" in said
    assert "Error" not in said
    assert len(list(tmp_path.glob(results))) >= 1, "the results of the app's own task only"
    assert not [one for one in tmp_path.glob(results) if "outbox" in one.read_text()]
    assert "the worker's time limit does not hold for the outbox" in said
