"""A silent server beside others: they are not taken for it, and their emails go on."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.reach import PAUSE_FIRST
from outbox.smtp import reply_reader
from outbox.store.control.circuit_breaker import close, trip
from outbox.store.queries.sweep import preemption
from outbox.worker.batch import todo
from tests.integration.blame.server import ClassServer
from tests.integration.store.leases import in_flight
from tests.integration.worker.silence.silent_content import (
    LEASE,
    have_the_process_go_on,
    silence,
    write,
)
from tests.integration.worker.silence.test_silent_server import DEADLINE, until, workers
from tests.support.shop.motion import attempts, halted, server
from tests.support.shop.shop import Shops
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.one_database("postgresql"),
    pytest.mark.databases("postgresql", "mariadb"),
]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(todo, "SLOW", 0.3)
    monkeypatch.setattr(preemption, "_LEFT", 0.1)
    monkeypatch.setattr(reply_reader, "LOOK", 0.1)


def test_a_late_reply_is_its_own_server_s_though_the_process_is_to_try_another_one_again(
    well: ClassServer, shops: Shops
) -> None:
    with silence() as silent, ClassServer() as left:
        left.refuses = lambda _: False
        shop = shops.open(
            OUTBOX_SERVERS=[
                server("silent", silent.port, connections=1),
                server("left", left.port, connections=1, order=2),
                server("well", well.port),
            ],
            OUTBOX_ROUTES=[
                {"name": "bad", "tag": "bad", "servers": ["silent", "left"]},
                {"name": "rest", "servers": ["well"]},
            ],
            OUTBOX_LEASE=LEASE,
            OUTBOX_SLOTS=1,
        )
        clock, reach = shop.runtime.clock, shop.runtime.reach
        reach.leave("left")
        shop.runtime.clock = lambda: clock() + PAUSE_FIRST
        write(shop, "bad", 1)
        with workers(shop, 1):
            have_the_process_go_on(shop, silent)
            with shop.engine.connect() as connection:
                assert in_flight(connection, shop.database) == {"silent": 1}
            trip(shop.database, "left", cause=Cause.EMAILS, reason="another host's")
            silent.released.set()
            until(shop, "bad", {"sent": 1})
            wait_until(lambda: not shop.rows(shop.tables.lease), DEADLINE, "the batch to end")
            assert attempts(shop) == {("silent", "sent"): 1, ("well", "sent"): 5}
            assert "left" in halted(shop)
            assert reach.has_left("left")
            close(shop.database, "left")
            write(shop, "bad", 1)
            wait_until(lambda: not reach.has_left("left"), DEADLINE, "the next batch tries it")
