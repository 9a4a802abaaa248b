"""Nothing else waits for a late reply: no claimed email, no locked row, no slot, no probe."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import select

from outbox.smtp import reply_reader
from outbox.store.queries.sweep import preemption
from outbox.worker.batch import todo
from outbox.worker.drain import drain
from tests.integration.blame.server import ClassServer
from tests.integration.store.queries.test_lanes import swept
from tests.integration.worker.silence.silent_content import (
    silence,
    two_routes,
    write,
)
from tests.integration.worker.silence.test_silent_content import awaited
from tests.integration.worker.silence.test_silent_server import (
    DEADLINE,
    statuses,
    until,
    workers,
)
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


def test_drain_sends_what_it_had_claimed_behind_it_and_then_waits_for_it(
    well: ClassServer, shops: Shops
) -> None:
    """No email is due meanwhile: the first sweep has claimed them all."""
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well))
        write(shop, "bad", 1)
        shop.later(1.0)  # the older one goes first
        write(shop, "good", 5)
        draining = threading.Thread(target=lambda: drain(shop.runtime))
        draining.start()
        until(shop, "good", {"sent": 5})
        assert draining.is_alive()
        until(shop, "bad", {"sending": 1})
        silent.released.set()
        draining.join(DEADLINE)
        assert statuses(shop, "bad") == {"sent": 1}


def test_the_last_process_rescues_the_batch_of_another_that_was_lost(
    well: ClassServer, shops: Shops
) -> None:
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=2)
        write(shop, "good", 5)
        [lost] = swept(shop)
        assert shop.start(lost.token), "by a worker that dies now"
        shop.later(31.0)
        write(shop, "bad", 1)
        with workers(shop, 1):
            until(shop, "good", {"sent": 5})
            assert statuses(shop, "bad") == {"sending": 1}
            silent.released.set()
            until(shop, "bad", {"sent": 1})


def test_an_email_behind_it_whose_row_is_locked_does_not_wait_for_the_late_reply(
    well: ClassServer, shops: Shops
) -> None:
    with silence() as silent:
        silent.refuses = lambda seen: "r0@bad.example" in seen.recipients
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1, OUTBOX_WINDOW=1)
        write(shop, "bad", 3)
        email = shop.tables.email
        with workers(shop, 1):
            wait_until(lambda: silent.contents, DEADLINE, "the first content to be there")
            last = max(row.id for row in shop.rows(email))
            with shop.engine.begin() as person:
                person.execute(select(email.c.id).where(email.c.id == last).with_for_update())
                write(shop, "good", 5)
                until(shop, "good", {"sent": 5})
                assert awaited() == 1
            until(shop, "bad", {"sent": 2, "sending": 1})
            silent.released.set()
            until(shop, "bad", {"sent": 3})
            wait_until(lambda: not shop.rows(shop.tables.lease), DEADLINE, "the batches to end")
        assert silent.contents == silent.copies["taken"] == 1
