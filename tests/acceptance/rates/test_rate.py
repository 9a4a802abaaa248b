"""The rate that a server sees, whatever the number of workers, and who goes first at it.

Here the clock is the requirement. A busy machine cannot make it red soon: permits are counted in
the database, so a late process sends a window late and never one too many, and what it is late by
less than `SLACK` for is made up. The moments are the server's, taken as it accepts.
"""

from __future__ import annotations

import time

import pytest

from outbox import Priority
from outbox.domain.scheduling.token_bucket import Rate
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.recorder import Recorder
from tests.support.stamps import burst, extremes, percentile
from tests.support.system.system import LIKE_PRODUCTION, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("rabbitmq")]

RATE = Rate(50, 1)
TEN_SECONDS = 10.0
MAILS = RATE.within(17)  # measured: a second to begin with, and sixteen of windows

BETWEEN = 0.73  # seconds from one urgent email to the next: at all phases of the bulk's windows


@pytest.mark.databases("postgresql")
def test_four_processes_in_two_workers_keep_the_rate_and_urgent_email_goes_next(
    database_url: str, broker: Broker, catcher: Catcher, recorder: Recorder
) -> None:
    settings = {"OUTBOX_RATE": "50/s", "MAIL_PORT": recorder.port, **LIKE_PRODUCTION}
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(2 * MAILS, priority=Priority.BULK)
        system.two_workers_and_beat()
        started, ahead = time.monotonic(), list[int]()
        while len(recorder.stamps()) < MAILS:
            _until(started + len(ahead) * BETWEEN)
            ahead.append(_bulk_before_an_urgent_mail(system, recorder, len(ahead)))
        moments = [stamp.at for stamp in recorder.stamps()]
    steady = [moment for moment in moments if moment > moments[0] + 1.0]
    fewest, most = extremes(steady, TEN_SECONDS)
    above = burst(moments, RATE.permits)
    print(f"{fewest} to {most} in 10 s, {above:.1f} above the rate, bulk before urgent: {ahead}")
    wanted = RATE.within(TEN_SECONDS)
    assert 0.95 * wanted <= fewest
    assert most <= 1.05 * wanted
    assert above <= RATE.within(1.0), "a burst, also at the start, when permits were saved up"
    assert percentile(ahead, 0.5) <= RATE.chunk, "urgent email takes the next permits"
    assert max(ahead) <= RATE.within(1.0)


def _until(moment: float) -> None:
    wait_until(lambda: time.monotonic() >= moment, 60, "the next urgent email's time")


def _bulk_before_an_urgent_mail(system: System, recorder: Recorder, number: int) -> int:
    """Return how many bulk emails the server took between the urgent one's commit and itself."""
    to = f"urgent-{number}@example.com"
    system.reset(to)
    committed = time.monotonic()
    accepted = wait_until(lambda: recorder.at(to), 60, f"{to} to be accepted")
    return sum(committed < stamp.at < accepted for stamp in recorder.stamps())
