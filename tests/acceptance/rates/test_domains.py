"""One recipient domain has a rate of its own: its emails wait in the table, and nobody else does.

Times are counted in emails of that domain. The bounds lie far above the usual (one task a second
and fifty commits) and far below what four processes do in a loop that waits for nothing.
"""

from __future__ import annotations

import pytest
from sqlalchemy import func, select, text

from outbox.domain.scheduling.lanes import HORIZON
from outbox.domain.scheduling.token_bucket import Rate
from outbox.worker.broker.queues import QUEUES
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.recorder import Recorder
from tests.support.stamps import extremes
from tests.support.system.system import LIKE_PRODUCTION, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("rabbitmq")]

RATE = Rate(10, 1)
LIMITED, OTHERS = 400, 2000
SECONDS = 8  # of the limited domain's emails, after the others have gone


@pytest.mark.databases("postgresql")
def test_a_domain_over_its_rate_waits_in_the_table_and_the_others_go_at_full_speed(
    database_url: str, broker: Broker, catcher: Catcher, recorder: Recorder
) -> None:
    rates = {"gmail.example": "10/s", "slow.example": "1/h"}
    settings = {"OUTBOX_DOMAIN_RATES": rates, "MAIL_PORT": recorder.port, **LIKE_PRODUCTION}
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(LIMITED, domain="gmail.example")
        system.newsletter(LIMITED, domain="slow.example")
        system.newsletter(OTHERS)
        workers = system.two_workers_and_beat("--loglevel=DEBUG")[:2]  # idle sweeps, too
        others = lambda: len(_moments(recorder, "example.com")) == OTHERS  # noqa: E731
        wait_until(others, 60, "all the others are delivered")
        goal = len(_moments(recorder, "gmail.example")) + RATE.within(SECONDS)
        assert goal < LIMITED, "the limited domain went as fast as the others"
        tasks, commits = _tasks(workers), _commits(system)

        def is_over() -> bool:
            # Two sweeps at the same moment may each claim as much as one may.
            assert _claimed(system) <= 2 * RATE.within(HORIZON), "over the rate, and yet claimed"
            assert broker.waiting() <= len(QUEUES), "nor does it wait in the broker"
            return len(_moments(recorder, "gmail.example")) >= goal

        wait_until(is_over, 60, "the limited domain goes on")
        tasks, commits = _tasks(workers) - tasks, _commits(system) - commits
        limited, slow = (_moments(recorder, d) for d in ("gmail.example", "slow.example"))
    fewest, most = extremes([moment for moment in limited if moment > limited[0] + 1.0], 5.0)
    print(f"{fewest} to {most} in 5 s; {tasks} tasks and {commits} commits in {SECONDS} s")
    assert fewest >= 45
    assert most <= 55
    assert len(slow) == 1
    assert tasks <= 10 * SECONDS
    assert commits <= 150 * SECONDS


def _claimed(system: System) -> int:
    """Return how many emails of the limited domain are claimed."""
    email = system.runtime.tables.email.c
    ours = (email.lane == "@gmail.example") & email.token.is_not(None)
    statement = select(func.count()).where(ours)
    return int(system.runtime.database.run(lambda c: c.execute(statement).scalar_one()))


def _moments(recorder: Recorder, domain: str) -> list[float]:
    return [stamp.at for stamp in recorder.stamps() if stamp.recipient.endswith("@" + domain)]


def _tasks(workers: list[CeleryProcess]) -> int:
    """Return how many tasks were run, sweeps and sends."""
    return sum(worker.printed().count(" succeeded in ") for worker in workers)


def _commits(system: System) -> int:
    statement = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    with system.runtime.database.engine.connect() as connection:
        return int(connection.execute(text(statement)).scalar_one())
