"""A sweep that claims nothing leaves no line in a worker's log at INFO, and any other one does."""

from __future__ import annotations

import re

import pytest

from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.system import System, running
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.databases("sqlite"),
    pytest.mark.brokers("redis"),
]

SECONDS = 60


def sweep(system: System) -> None:
    """Have the worker sweep; return when it has taken the task."""
    assert system.runtime.publish("outbox.sweep", "outbox.sweep")
    wait_until(lambda: system.broker.waiting() == 0, SECONDS, "the worker to take the task")


def told(worker: CeleryProcess) -> list[str]:
    """Return what the sweeps returned, by the worker's log."""
    found = re.findall(r"Task outbox\.sweep\[\S+\] succeeded in \S+: (\d+)", worker.printed())
    return [str(one) for one in found]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_only_a_sweep_that_claims_emails_is_told_at_info(
    database_url: str, redis: RedisServer, catcher: Catcher, pool: str
) -> None:
    with running(database_url, redis, catcher, OUTBOX_NUDGE=False) as system:
        worker = system.worker(concurrency=1, pool=pool)
        sweep(system)  # the one process does these tasks one after the other
        system.newsletter(2)
        sweep(system)
        wait_until(lambda: told(worker), SECONDS, worker.printed)
        sweep(system)
        system.newsletter(1)
        sweep(system)
        wait_until(lambda: len(told(worker)) > 1, SECONDS, worker.printed)
        assert told(worker) == ["2", "1"]
        assert worker.printed().count("outbox.sweep[") == 2


def test_at_debug_each_sweep_is_told(
    database_url: str, redis: RedisServer, catcher: Catcher
) -> None:
    with running(database_url, redis, catcher, OUTBOX_NUDGE=False) as system:
        worker = system.worker("--loglevel=DEBUG", concurrency=1)
        sweep(system)
        wait_until(lambda: told(worker), SECONDS, worker.printed)
        assert told(worker) == ["0"]
        assert re.search(r"DEBUG/\S+\] Task outbox\.sweep\[\S+\] received", worker.printed())
