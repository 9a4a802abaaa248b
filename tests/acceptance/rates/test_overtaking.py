"""Urgent email overtakes a newsletter of any size on its way to a distant server.

A second is the promise, and some tenths are what it takes. Where nothing overtakes, an urgent email
waits for the whole newsletter, minutes: nothing between decides. The full size is run by hand:
OVERTAKING_BULK=100000 OVERTAKING_URGENT=100.
"""

from __future__ import annotations

import os
import time

import pytest

from outbox import Priority
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.delay import Delay
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.recorder import Recorder
from tests.support.stamps import percentile
from tests.support.system.system import LIKE_PRODUCTION, System, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("redis")]

ONE_WAY = 0.01  # seconds
BULK = int(os.environ.get("OVERTAKING_BULK", "5000"))
URGENT = int(os.environ.get("OVERTAKING_URGENT", "20"))
BETWEEN = 20  # bulk emails before the next urgent one, so that all goes its usual way again


@pytest.mark.databases("postgresql")
@pytest.mark.timeout(600)
def test_an_urgent_email_among_a_newsletter_is_accepted_within_a_second(
    database_url: str, broker: Broker, catcher: Catcher, recorder: Recorder
) -> None:
    with Delay(recorder.port, ONE_WAY) as distant:
        settings = {"MAIL_PORT": distant.port, **LIKE_PRODUCTION}
        with running(database_url, broker, catcher, **settings) as system:
            system.newsletter(BULK, priority=Priority.BULK)
            system.two_workers_and_beat()
            waits = [_wait_of_one(system, recorder, number) for number in range(URGENT)]
            assert len(recorder.stamps()) < BULK, "the newsletter was sent too soon to tell"
    share = 0.99 if URGENT >= 100 else 0.95  # of a few, too, one may be the odd one
    usual, late = percentile(waits, 0.5), percentile(waits, share)
    print(
        f"{URGENT} urgent emails among {BULK}: p50 {usual:.3f} s, p{share * 100:.0f} {late:.3f} s"
    )
    assert late <= 1.0


def _wait_of_one(system: System, recorder: Recorder, number: int) -> float:
    """Return the seconds from an urgent email's commit to its acceptance."""
    before = len(recorder.stamps()) + BETWEEN
    wait_until(lambda: len(recorder.stamps()) >= before, 60, "the newsletter goes on")
    to = f"urgent-{number}@example.com"
    system.reset(to)
    committed = time.monotonic()
    return wait_until(lambda: recorder.at(to), 60, f"{to} to be accepted") - committed
