"""How a worker ends: it says goodbye, and does not keep whoever asked it waiting."""

from __future__ import annotations

import pytest

from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.system import running
from tests.support.waiting import wait_until

SECONDS = 30


@pytest.mark.long
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_worker_that_ends_says_quit_to_the_servers_that_it_used(
    database_url: str, redis: RedisServer, catcher: Catcher, pool: str
) -> None:
    with running(database_url, redis, catcher) as system:
        worker = system.worker(concurrency=1, pool=pool)
        system.newsletter(1)
        system.wait_sent(1)
        assert (catcher.open_sessions, catcher.quits) == (1, 0)
        worker.stop()
        wait_until(lambda: not catcher.open_sessions, SECONDS, "the server to see the end")
        assert catcher.quits == 1
