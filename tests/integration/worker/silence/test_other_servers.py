"""A silent server beside others: they are not taken for it, and their emails go on."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Row, update

from outbox.domain.delivery import blame
from outbox.domain.delivery import breaker_timing as rules
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.reach import PAUSE_FIRST
from outbox.domain.delivery.transaction import Phase
from outbox.smtp import reply_reader, tls
from outbox.store.control.circuit_breaker import close, trip
from outbox.store.queries.sweep import preemption
from outbox.worker.batch import next_window, result_factory, todo
from outbox.worker.batch.next_window import NextWindow
from outbox.worker.capacity.claimable import are_left
from tests.integration.blame.server import ClassServer
from tests.integration.store.leases import in_flight
from tests.integration.worker.silence.silent_content import (
    LEASE,
    have_the_process_go_on,
    silence,
    two_routes,
    write,
)
from tests.integration.worker.silence.test_silent_server import (
    DEADLINE,
    SilentServer,
    until,
    workers,
)
from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.servers.smtp.scripted import ScriptedServer
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import attempts, halted, server
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
    monkeypatch.setattr(tls, "LOOK", 0.1)
    monkeypatch.setattr(result_factory, "SLOW_DELAY", 1.0)
    monkeypatch.setattr(rules, "OPEN_FIRST", 0.5)
    monkeypatch.setattr(next_window, "SESSION_SHARED", 0.3)


@pytest.mark.long
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
            assert reach.was_left("left")
            close(shop.database, "left")
            write(shop, "bad", 1)
            wait_until(lambda: not reach.was_left("left"), DEADLINE, "the next batch tries it")


class Late(ScriptedServer):
    """Says nothing to a connection until it is `released`, or the client has gone."""

    def __init__(self, inner: ClassServer) -> None:
        super().__init__()
        self.released = threading.Event()
        self._inner = inner
        self.otherwise = (self._serve,)

    def _serve(self, dialogue: Dialogue) -> None:
        gone = select.poll()
        gone.register(dialogue.sock, select.POLLRDHUP)
        while not self.released.is_set():
            if dialogue.stopped.is_set() or gone.poll(20):
                raise HangupError
        self._inner._serve(dialogue)


@pytest.fixture
def inner() -> Iterator[ClassServer]:
    with ClassServer() as made:
        made.refuses = lambda _: False
        yield made


def has_failed(shop: Shop, cause: Cause, probes: int) -> None:
    """Have the silent server be halted, and so many of its probes have failed; the next is due."""
    trip(shop.database, "silent", cause=cause, reason="no reply")
    with shop.engine.begin() as connection:
        connection.execute(update(shop.tables.breaker).values(failures=probes))
    shop.later(6.0)


def bad(shop: Shop) -> Sequence[Row[Any]]:
    email = shop.tables.email
    return shop.rows(email, email.c.tag == "bad")


@pytest.mark.long
@pytest.mark.parametrize("phase", [Phase.MAIL, Phase.RCPT, Phase.DATA])
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 4])
@pytest.mark.matrix
def test_a_server_that_says_nothing_to_a_command_stops_no_other_server_s_emails(
    phase: Phase, count: int, well: ClassServer, shops: Shops
) -> None:
    with SilentServer(phase) as silent:
        silent.refuses = lambda _: not silent.released.is_set()
        shop = shops.open(
            **two_routes(silent, well), OUTBOX_SLOTS=count, OUTBOX_BATCH=1, OUTBOX_WINDOW=1
        )
        write(shop, "bad", count)
        with workers(shop, count):
            wait_until(lambda: silent.refused == count, DEADLINE, "each process to be held")
            write(shop, "good", 20)
            until(shop, "good", {"sent": 20})
            assert {(row.attempts, row.crashes) for row in bad(shop)} == {(0, 0)}
            silent.released.set()


@pytest.mark.long
def test_nor_does_its_probe_though_many_have_failed(well: ClassServer, shops: Shops) -> None:
    with SilentServer(Phase.MAIL) as silent:
        silent.refuses = lambda _: True
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        write(shop, "bad", 1)
        has_failed(shop, Cause.EMAILS, 9)
        with workers(shop, 1):
            wait_until(lambda: silent.refused, DEADLINE, "the probe is under way")
            write(shop, "good", 50)
            until(shop, "good", {"sent": 50})


@pytest.mark.long
def test_nor_does_a_server_that_took_long_for_a_content_just_now(
    well: ClassServer, shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blame, "PATIENCE_MAX", 0.5)
    with SilentServer(Phase.MAIL) as silent:
        silent.refuses = lambda _: not silent.released.is_set()
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        silent.released.set()
        write(shop, "bad", 1)
        with workers(shop, 1):
            until(shop, "bad", {"sent": 1})
            with shop.engine.begin() as connection:
                long_ago = datetime.now(UTC) - timedelta(seconds=600)
                connection.execute(update(shop.tables.attempt).values(started_at=long_ago))
            silent.released.clear()
            write(shop, "bad", 1)
            wait_until(lambda: silent.refused, DEADLINE, "the process to be held")
            write(shop, "good", 50)
            until(shop, "good", {"sent": 50})
            assert [(row.attempts, row.crashes) for row in bad(shop)] == [(1, 0), (0, 0)]
            silent.released.set()


@pytest.mark.long
@pytest.mark.parametrize("use_ssl", [False, True], ids=["in clear", "in the TLS handshake"])
def test_nor_does_a_server_that_never_greets_though_many_sessions_have_failed(
    inner: ClassServer, well: ClassServer, shops: Shops, use_ssl: bool
) -> None:
    with Late(inner) as silent:
        routes = two_routes(silent, well, use_ssl=use_ssl)
        shop = shops.open(**routes, OUTBOX_SLOTS=1, OUTBOX_CONNECT_TIMEOUT=3 * DEADLINE)
        write(shop, "bad", 1)
        has_failed(shop, Cause.SESSION, 9)
        with workers(shop, 1):
            wait_until(lambda: silent.dialogues, DEADLINE, "the probe is under way")
            write(shop, "good", 50)
            until(shop, "good", {"sent": 50})


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What each look says, during the wait for a session: whether to wait on."""
    found: list[bool] = []
    look = NextWindow._awaits_session

    def noted(self: NextWindow, seconds: float) -> bool:
        found.append(look(self, seconds))
        return found[-1]

    monkeypatch.setattr(NextWindow, "_awaits_session", noted)
    return found


@pytest.mark.long
def test_a_late_greeting_is_waited_for_where_only_its_own_server_s_emails_wait(
    inner: ClassServer, well: ClassServer, shops: Shops, looks: list[bool]
) -> None:
    with Late(inner) as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        write(shop, "bad", 5)
        has_failed(shop, Cause.SESSION, 9)
        with workers(shop, 1):
            wait_until(lambda: len(looks) > 6, DEADLINE, "looks whether others wait")
            silent.released.set()
            until(shop, "bad", {"sent": 5})
        assert len(silent.dialogues) == 1
        assert all(looks)


@pytest.mark.long
def test_a_greeting_has_a_minute_although_others_wait(
    inner: ClassServer,
    well: ClassServer,
    shops: Shops,
    looks: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(next_window, "SESSION_SHARED", rules.SESSION_SHARED)
    with Late(inner) as silent:
        shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
        runtime = shop.runtime
        write(shop, "bad", 1)
        has_failed(shop, Cause.SESSION, 9)
        with workers(shop, 1):
            wait_until(lambda: silent.dialogues, DEADLINE, "the probe is under way")
            write(shop, "good", 5)
            wait_until(
                lambda: are_left(runtime),
                DEADLINE,
                "the others to wait for the process",
            )
            before = len(looks)
            wait_until(lambda: len(looks) > before + 2, DEADLINE, "looks meanwhile")
            silent.released.set()
            until(shop, "bad", {"sent": 1})
            until(shop, "good", {"sent": 5})
        assert len(silent.dialogues) == 1
        assert all(looks)
