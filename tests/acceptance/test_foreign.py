"""Two outboxes that share one broker database: a worker tells that it got a task of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.system import running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("redis")]


@pytest.mark.databases("sqlite")
def test_a_worker_tells_of_another_outbox_s_tasks_and_of_none_of_its_own(
    database_url: str, broker: Broker, catcher: Catcher, tmp_path: Path
) -> None:
    settings = {"OUTBOX_NUDGE": False, "OUTBOX_LEASE": 60.0}
    other = f"sqlite:///{tmp_path}/other.db"
    with running(database_url, broker, catcher, **settings) as ours:
        ours.sweep()  # which gives its tables an id
        ours.newsletter(1)
        ours.sweep()
        worker = ours.worker("--loglevel=INFO", concurrency=1)
        ours.wait_sent(1)
        wait_until(lambda: "succeeded" in worker.printed(), 60, "our own task to end")
        assert "another outbox" not in worker.printed()
        with running(other, broker, catcher, **settings) as theirs:
            theirs.sweep()
            theirs.newsletter(1)
            theirs.sweep()
            wait_until(lambda: "of another outbox" in worker.printed(), 60, "the warning")
            assert len(theirs.runtime.instance.id) > 0
