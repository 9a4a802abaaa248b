"""A server that says nothing to a content keeps no process: a thread waits for its reply."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import select, true

from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.transaction import Phase
from outbox.smtp import reply_reader
from outbox.store.control.circuit_breaker import trip
from outbox.store.control.lease import has_slot
from outbox.store.queries.sweep import preemption
from outbox.worker.batch import todo
from outbox.worker.drain import drain
from tests.integration.blame.server import ClassServer
from tests.integration.store.leases import in_flight
from tests.integration.worker.silence.silent_content import (
    LEASE,
    awaited,
    have_the_process_go_on,
    is_halted,
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
@pytest.mark.parametrize("count", [1, 4], ids=["one worker", "four"])
def test_the_emails_of_other_servers_go_on_and_those_in_doubt_arrive_once(
    count: int, well: ClassServer, shops: Shops
) -> None:
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=count, OUTBOX_WINDOW=1)
        write(shop, "bad", count)
        with workers(shop, count):
            wait_until(lambda: silent.contents == count, DEADLINE, "each process to be held")
            write(shop, "good", 50)
            until(shop, "good", {"sent": 50})
            assert statuses(shop, "bad")["sending"] == silent.contents
            silent.released.set()
            until(shop, "bad", {"sent": count})
        assert silent.copies["taken"] == silent.contents == count
        assert {row.unknown_count for row in shop.rows(shop.tables.email)} == {0}
        wait_until(lambda: not shop.rows(shop.tables.lease), DEADLINE, "the batches to end")


@pytest.mark.long
@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ("250 2.0.0 queued", "sent"),
        ("550 5.7.1 no", "failed"),
        ("451 4.7.1 later", "pending"),
        ("421 4.3.2 closing", "pending"),
        ("close", "unknown"),
        ("what?", "unknown"),
    ],
)
def test_the_late_reply_says_what_becomes_of_the_email(
    reply: str, status: str, well: ClassServer, shops: Shops
) -> None:
    with silence(reply) as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1, OUTBOX_ON_UNKNOWN="hold")
        write(shop, "bad", 1)
        with workers(shop, 1):
            have_the_process_go_on(shop, silent)
            assert awaited() == 1
        silent.released.set()
        until(shop, "bad", {status: 1})
        wait_until(lambda: not awaited(), DEADLINE, "the thread to end")
        [attempt] = shop.rows(shop.tables.attempt, shop.tables.attempt.c.server == "silent")
        assert attempt.phase == Phase.DOT
        assert not shop.rows(shop.tables.lease)


@pytest.mark.long
def test_the_emails_behind_it_go_over_the_same_server_which_is_not_halted(shops: Shops) -> None:
    """One email alone is slow, as where a filter looks at it for long."""
    with silence() as one:
        one.refuses = lambda seen: "r0@bad.example" in seen.recipients
        shop = shops.open(
            OUTBOX_SERVERS=[server("silent", one.port)], OUTBOX_SLOTS=1, OUTBOX_LEASE=LEASE
        )
        write(shop, "bad", 30)
        with workers(shop, 1):
            until(shop, "bad", {"sent": 29, "sending": 1})
            assert not is_halted(shop)
            one.released.set()
            until(shop, "bad", {"sent": 30})
        assert one.contents == one.copies["taken"] == 1


@pytest.mark.long
def test_a_server_that_is_silent_to_all_is_halted_and_its_late_replies_end_that(
    well: ClassServer, shops: Shops
) -> None:
    with silence() as silent:
        shop = shops.open(
            **two_routes(silent, well), OUTBOX_SLOTS=2, OUTBOX_BATCH=1, OUTBOX_WINDOW=1
        )
        write(shop, "bad", 40)
        write(shop, "good", 1)
        with workers(shop, 2):
            wait_until(lambda: is_halted(shop), DEADLINE, "an open breaker")
            write(shop, "good", 50)
            until(shop, "good", {"sent": 51})
            held = silent.contents
            assert held < 10, "most were spared the doubt"
            silent.released.set()
            wait_until(lambda: not is_halted(shop), DEADLINE, "its breaker to be closed")
            until(shop, "bad", {"sent": 40})
        assert silent.copies["taken"] == silent.contents == 40


@pytest.mark.long
def test_a_late_reply_that_takes_the_email_closes_a_breaker_that_others_opened(
    well: ClassServer, shops: Shops
) -> None:
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        write(shop, "bad", 1)
        with workers(shop, 1):
            have_the_process_go_on(shop, silent)
            trip(shop.database, "silent", cause=Cause.EMAILS, reason="no reply yet")
            assert is_halted(shop), "and no email is left for a probe"
            silent.released.set()
            wait_until(lambda: not is_halted(shop), DEADLINE, "its breaker to be closed")


@pytest.mark.long
def test_a_known_result_whose_row_is_locked_does_not_wait_for_the_late_reply(
    well: ClassServer, shops: Shops
) -> None:
    with silence() as silent:
        silent.refuses = lambda seen: "r1@bad.example" in seen.recipients
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        write(shop, "bad", 2)
        email = shop.tables.email
        with workers(shop, 1):
            wait_until(lambda: silent.contents, DEADLINE, "the second content to be there")
            first = min(row.id for row in shop.rows(email))
            with shop.engine.begin() as person:
                person.execute(select(email.c.id).where(email.c.id == first).with_for_update())
                write(shop, "good", 5)
                until(shop, "good", {"sent": 5})
            until(shop, "bad", {"sent": 1, "sending": 1})
            silent.released.set()
            until(shop, "bad", {"sent": 2})
            wait_until(lambda: not shop.rows(shop.tables.lease), DEADLINE, "the batch to end")
        assert silent.copies == {"taken": 1, "r0@bad.example": 1}


@pytest.mark.long
def test_it_holds_no_slot_but_a_place_under_the_server_s_cap(
    well: ClassServer, shops: Shops
) -> None:
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well, connections=1), OUTBOX_SLOTS=1)
        write(shop, "bad", 3)
        with workers(shop, 1):
            have_the_process_go_on(shop, silent)
            write(shop, "good", 20)
            until(shop, "good", {"sent": 25})
            lease = shop.tables.lease
            wait_until(lambda: len(shop.rows(lease)) == 1, DEADLINE, "the others' batches to end")
            with shop.engine.connect() as connection:
                assert in_flight(connection, shop.database) == {"silent": 1}
            assert not shop.rows(lease, has_slot(shop.database))
            assert silent.contents == 1
            [batch] = shop.outbox.progress(tag="bad").batches
            assert (batch.sending, batch.awaits_reply, batch.is_silent) == (1, True, False)
            email = shop.tables.email.c
            [row] = shop.rows(shop.tables.email, email.status == "sending")
            found = shop.outbox.get(row.id)
            assert found is not None
            assert "waits for the reply" in found.waits[0]
            silent.released.set()
            until(shop, "bad", {"sent": 3})


@pytest.mark.long
def test_no_rescue_takes_it_for_lost_while_it_is_waited_for(
    well: ClassServer, shops: Shops
) -> None:
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        write(shop, "bad", 1)
        with workers(shop, 1):
            have_the_process_go_on(shop, silent)
            late = shop.tables.lease.c.awaits_reply == true()
            [first] = shop.rows(shop.tables.lease, late)

            def has_outlived() -> bool:
                [row] = shop.rows(shop.tables.lease, late)
                return bool((row.expires_at - first.expires_at).total_seconds() > 4 * LEASE)

            wait_until(has_outlived, DEADLINE, "more than two leases to pass")
            [row] = shop.rows(shop.tables.lease, late)
            assert row.suspected_at is None, "an outage of the database costs it nothing either"
            assert statuses(shop, "bad") == {"sending": 1}
            silent.released.set()
            until(shop, "bad", {"sent": 1})


def test_a_process_ends_only_when_it_has_the_reply(well: ClassServer, shops: Shops) -> None:
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        write(shop, "bad", 1)
        with workers(shop, 1):
            have_the_process_go_on(shop, silent)
        end = threading.Thread(target=shop.runtime.wait_for_writes)
        end.start()
        assert end.is_alive()
        silent.released.set()
        end.join(DEADLINE)
        assert not end.is_alive()
        assert statuses(shop, "bad") == {"sent": 1}


@pytest.mark.long
def test_drain_sends_the_others_and_then_waits_for_it(well: ClassServer, shops: Shops) -> None:
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        write(shop, "bad", 1)
        counts: list[int] = []
        draining = threading.Thread(target=lambda: counts.append(drain(shop.runtime)))
        draining.start()
        wait_until(lambda: silent.contents, DEADLINE, "the content to be there")
        write(shop, "good", 5)
        until(shop, "good", {"sent": 5})
        assert draining.is_alive()
        silent.released.set()
        draining.join(DEADLINE)
        assert counts == [6]
        assert statuses(shop, "bad") == {"sent": 1}


@pytest.mark.long
def test_where_there_can_be_no_thread_it_is_waited_for_in_its_place(
    well: ClassServer, shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    with silence() as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        monkeypatch.setattr(shop.runtime.late_replies, "start", lambda _: False)
        write(shop, "bad", 1)
        with workers(shop, 1):
            wait_until(lambda: silent.contents, DEADLINE, "the content to be there")
            write(shop, "good", 5)
            lease = shop.tables.lease
            given_up = lease.c.awaits_reply == true()
            wait_until(lambda: shop.rows(lease, given_up), DEADLINE, "its slot to be given up")
            silent.released.set()
            until(shop, "bad", {"sent": 1})
            until(shop, "good", {"sent": 5})
        assert silent.copies["taken"] == 1
