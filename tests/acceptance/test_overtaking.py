"""Urgent mail overtakes a newsletter of any size on its way to a distant server.

What goes before it is counted in mails, so that a busy machine decides nothing: no more of them
than the newsletter's pace brings in the promised second. Where nothing overtakes, it is all of it.
Seconds are measured by `make bench ONLY=urgent`, and printed here where the full size is run by
hand: OVERTAKING_BULK=100000 OVERTAKING_URGENT=100.
"""

from __future__ import annotations

import os
import time

import pytest

from outbox import Priority
from tests.acceptance.conftest import LIKE_PRODUCTION, System, running
from tests.acceptance.measure import percentile
from tests.servers.broker import Broker
from tests.servers.catcher import Catcher
from tests.servers.delay import Delay
from tests.servers.recorder import Recorder
from tests.waiting import wait_until

ONE_WAY = 0.01  # seconds
BULK = int(os.environ.get("OVERTAKING_BULK", "5000"))
URGENT = int(os.environ.get("OVERTAKING_URGENT", "20"))
BETWEEN = 20  # bulk mails before the next urgent one, so that all goes its usual way again


@pytest.mark.databases("postgresql")
@pytest.mark.timeout(600)
def test_no_more_of_a_newsletter_than_a_second_brings_goes_before_an_urgent_mail(
    database_url: str, broker: Broker, catcher: Catcher, recorder: Recorder
) -> None:
    with Delay(recorder.port, ONE_WAY) as distant:
        settings = {"MAIL_PORT": distant.port, **LIKE_PRODUCTION}
        with running(database_url, broker, catcher, **settings) as system:
            system.newsletter(BULK, priority=Priority.BULK)
            system.two_workers_and_beat()
            urgent = [_one(system, recorder, number) for number in range(URGENT)]
            moments = [stamp.at for stamp in recorder.stamps()]
            assert len(moments) < BULK, "the newsletter was sent too soon to tell"
    share = 0.99 if URGENT >= 100 else 0.95  # of a few, too, one may be the odd one
    waits, ahead = ([one[n] for one in urgent] for n in (0, 1))
    usual, late = percentile(waits, 0.5), percentile(waits, share)
    before = percentile(ahead, share)
    a_second = len(moments) / (moments[-1] - moments[0])
    print(f"{URGENT} urgent mails among {BULK}: p50 {usual:.3f} s, p{share * 100:.0f} {late:.3f} s")
    print(f"bulk before one: p{share * 100:.0f} {before:.0f}, at {a_second:.0f} a second")
    assert before <= a_second


def _one(system: System, recorder: Recorder, number: int) -> tuple[float, int]:
    """Return the seconds from an urgent mail's commit to its acceptance, and the bulk between."""
    before = len(recorder.stamps()) + BETWEEN
    wait_until(lambda: len(recorder.stamps()) >= before, 60, "the newsletter goes on")
    to = f"urgent-{number}@example.com"
    system.reset(to)
    committed = time.monotonic()
    accepted = wait_until(lambda: recorder.at(to), 60, f"{to} to be accepted")
    return accepted - committed, sum(committed < s.at < accepted for s in recorder.stamps())
