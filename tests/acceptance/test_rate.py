"""The rate that a server sees, whatever the number of workers, and who goes first at it.

A busy machine does not make it red: permits are counted in the database, so a late process sends
its window late and never one too many, and what comes before an urgent mail is counted in mails.
How even the pace is in time is measured by `make bench ONLY=pace`.
"""

from __future__ import annotations

import time

import pytest

from outbox import Priority
from outbox.domain.rate import SLACK, Rate
from tests.acceptance.conftest import LIKE_PRODUCTION, System, running
from tests.acceptance.measure import burst, percentile
from tests.servers.broker import Broker
from tests.servers.catcher import Catcher
from tests.servers.recorder import Recorder
from tests.waiting import wait_until

RATE = Rate(50, 1)
WORKERS, PROCESSES = 2, 2
MAILS = RATE.within(8)  # looked at
WAITING = RATE.within(60)  # nobody comes to their end, nor does an urgent mail that queues behind
BURST = WORKERS * PROCESSES * RATE.chunk + RATE.within(SLACK) + 1
"""Each process may be late with one window, and an idle bucket has saved some up."""


@pytest.mark.databases("postgresql")
def test_four_processes_in_two_workers_keep_the_rate_and_urgent_mail_goes_next(
    database_url: str, broker: Broker, catcher: Catcher, recorder: Recorder
) -> None:
    settings = {"OUTBOX_RATE": "50/s", "MAIL_PORT": recorder.port, **LIKE_PRODUCTION}
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(WAITING, priority=Priority.BULK)
        system.two_workers_and_beat()
        ahead = list[int]()
        while len(recorder.stamps()) < MAILS:
            ahead.append(_bulk_before_an_urgent_mail(system, recorder, len(ahead)))
        moments = [stamp.at for stamp in recorder.stamps()]
    above = burst(moments, RATE.permits)
    print(f"{above:.1f} above the rate, bulk before urgent: {ahead}")
    assert above <= BURST, "also at the start, when permits were saved up"
    assert percentile(ahead, 0.5) <= RATE.within(1.0), "urgent mail takes the next permits"
    assert max(ahead) <= MAILS


def _bulk_before_an_urgent_mail(system: System, recorder: Recorder, number: int) -> int:
    """Return how many bulk mails the server took between the urgent one's commit and itself."""
    before = len(recorder.stamps()) + RATE.chunk
    wait_until(lambda: len(recorder.stamps()) >= before, 60, "the newsletter goes on")
    to = f"urgent-{number}@example.com"
    system.reset(to)
    committed = time.monotonic()
    accepted = wait_until(lambda: recorder.at(to), 60, f"{to} to be accepted")
    return sum(committed < stamp.at < accepted for stamp in recorder.stamps())
