"""A host that slept through a lease: after the resume its worker sends nothing more."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from outbox.worker.batch.send_batch import send_batch
from outbox.worker.process.steady_clock import steady
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import LEASE, Shop, addresses
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_database("postgresql")

PATIENCE = 30.0


class Host:
    """The clock of a host that was suspended: no test can suspend the machine that it runs on."""

    def __init__(self) -> None:
        self.slept = 0.0

    def clock(self) -> float:
        return steady() + self.slept


@pytest.fixture
def host(sending: Shop) -> Host:
    host = Host()
    sending.runtime.clock = host.clock
    return host


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_the_clock_is_the_one_that_goes_on_while_the_host_sleeps(shop: Shop) -> None:
    clock = shop.runtime.clock
    assert isinstance(clock, partial)
    assert (clock.func, clock.args) == (time.clock_gettime, (time.CLOCK_BOOTTIME,))


def test_what_the_host_slept_through_counts_against_the_lease(
    sending: Shop, catcher: Catcher, host: Host
) -> None:
    for address in addresses(3):
        sending.enqueue(address)
    (made,) = sending.claim()
    gate = catcher.hold_at("content")
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(send_batch, sending.runtime, made.token)
        try:
            wait_until(lambda: gate.reached, PATIENCE, "the first email's envelope")
            host.slept += LEASE + 1
        finally:
            gate.open()
        work.result(PATIENCE)
    assert catcher.emails == ()
    ends = {(m.status, m.attempts, m.unknown_count) for m in sending.rows(sending.tables.email)}
    assert ends == {("pending", 0, 0)}
