"""Nothing else waits for a late reply: no claimed email, no locked row, no slot, no probe."""

from __future__ import annotations

import threading
from uuid import UUID

import pytest
from sqlalchemy import select, update

from outbox.domain.delivery import breaker_timing as rules
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.transaction import Phase
from outbox.smtp import reply_reader
from outbox.store.connection.database import Database
from outbox.store.control import lease
from outbox.store.control.circuit_breaker import trip
from outbox.store.queries.sweep import preemption
from outbox.worker.batch import todo
from outbox.worker.batch.silence import late_reply
from outbox.worker.drain import drain
from tests.integration.blame.server import ClassServer, Habit
from tests.integration.store.queries.test_lanes import swept
from tests.integration.worker.silence.silent_content import (
    LEASE,
    awaited,
    have_the_process_go_on,
    silence,
    two_routes,
    write,
)
from tests.integration.worker.silence.test_silent_server import (
    DEADLINE,
    statuses,
    until,
    workers,
)
from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.shop.shop import Shops
from tests.support.shop.steps.motion import server
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("kept", ["slot", "probe"])
def test_it_gives_up_its_slot_and_its_probe_also_where_a_row_is_locked_at_that_moment(
    kept: str, shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is for milliseconds by a renewal, or where another batch meets an outage."""
    monkeypatch.setattr(rules, "PROBE_FIRST", 0.5)
    monkeypatch.setattr(rules, "OPEN_FIRST", 0.2)
    with silence() as one:
        one.refuses = lambda _: not one.contents
        shop = shops.open(
            OUTBOX_SERVERS=[server("silent", one.port)], OUTBOX_SLOTS=1, OUTBOX_LEASE=LEASE
        )
        table = shop.tables.lease if kept == "slot" else shop.tables.breaker
        home, name = (lease, "await_reply") if kept == "slot" else (late_reply, "leave_probe")
        give_up, done = getattr(home, name), list[bool]()

        def locked_at_first(database: Database, token: UUID) -> bool:
            with shop.engine.begin() as other:
                if not done:
                    assert other.execute(select(table).with_for_update()).all()
                done.append(give_up(database, token))
            return done[-1]

        monkeypatch.setattr(home, name, locked_at_first)
        write(shop, "bad", 30)
        trip(shop.database, "silent", cause=Cause.EMAILS, reason="no reply yet")
        with workers(shop, 1):
            until(shop, "bad", {"sent": 29, "sending": 1})
            assert done == [False, True]
            one.released.set()
            until(shop, "bad", {"sent": 30})


@pytest.mark.long
@pytest.mark.parametrize("failed", [1, 10])
def test_a_probe_whose_content_gets_no_reply_keeps_its_server_halted_no_longer(
    failed: int, shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is well again, but the connection of the probe is lost, and nobody notices.

    So it is also where many probes before it were refused.
    """
    monkeypatch.setattr(rules, "PROBE_FIRST", 0.5)
    monkeypatch.setattr(rules, "OPEN_FIRST", 0.2)
    with silence() as one:
        one.refuses = lambda _: not one.contents
        shop = shops.open(
            OUTBOX_SERVERS=[server("silent", one.port)], OUTBOX_SLOTS=4, OUTBOX_LEASE=LEASE
        )
        write(shop, "bad", 30)
        trip(shop.database, "silent", cause=Cause.EMAILS, reason="rcpt: 451 later")
        with shop.engine.begin() as connection:
            connection.execute(update(shop.tables.breaker).values(failures=failed))
        with workers(shop, 1):
            until(shop, "bad", {"sent": 29, "sending": 1})
            one.released.set()
            until(shop, "bad", {"sent": 30})
        assert one.contents == one.copies["taken"] == 1


@pytest.mark.long
def test_its_result_is_recorded_before_quit_and_its_place_is_free_behind_it(
    well: ClassServer, shops: Shops
) -> None:
    """A server may take its time with QUIT, too, and the email would be in doubt meanwhile."""
    told: list[tuple[str, bool, int]] = []
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well, connections=1), OUTBOX_SLOTS=1)

        def reply_and_read(dialogue: Dialogue) -> None:
            silent._wait(dialogue)
            line = dialogue.line()
            is_sent = statuses(shop, "bad") == {"sent": 1}
            told.append((line, is_sent, len(shop.rows(shop.tables.lease))))
            dialogue.say("221 bye")
            raise HangupError

        silent.habit = Habit(phase=Phase.DOT, answer=reply_and_read)
        write(shop, "bad", 1)
        with workers(shop, 1):
            have_the_process_go_on(shop, silent)
        silent.released.set()
        wait_until(lambda: not awaited(), DEADLINE, "the thread to end")
    assert told == [("QUIT", True, 1)]
