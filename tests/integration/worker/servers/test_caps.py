"""Connection caps as the server sees them: never one too many, over all workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event

from outbox.smtp.connection import Connection
from outbox.store.control.connection_caps import take_server
from outbox.store.records import Claim
from outbox.store.transitions.window import finish
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.batch.server_choice import ServerChoice
from outbox.worker.drain import drain
from outbox.worker.sweep import sweep
from tests.integration.store.leases import in_flight
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.stateful import StatefulServer
from tests.support.shop.shop import LEASE, WORKER, Shop, Shops
from tests.support.shop.steps.motion import HOT, Motion, attempts, server, standing, write
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_database("mariadb")

SENT = ("sent", 1, 0, 0)
UNTOUCHED = ("pending", 0, 0, 0)


def places(shop: Shop) -> dict[str, int]:
    return shop.database.read(lambda c: in_flight(c, shop.database))


class Crowd(Catcher):
    """A catcher that tells how many connections were open at once."""

    most = 0

    def opened(self, connection: object) -> None:
        super().opened(connection)  # type: ignore[arg-type]  # the catcher's own
        self.most = max(self.most, self.open_sessions)


@pytest.mark.over_and_over
@pytest.mark.long
@pytest.mark.parametrize("cap", [1, 2])
def test_four_workers_never_have_more_connections_than_the_cap(shops: Shops, cap: int) -> None:
    with Crowd() as crowd:
        entry = server("a", crowd.port, connections=cap)
        opened = [
            shops.open(OUTBOX_SERVERS=[entry], OUTBOX_BATCH=5, OUTBOX_WINDOW=5) for _ in range(4)
        ]
        write(opened[0], 60)

        def work(shop: Shop) -> None:
            while not {"pending", "claimed", "sending"}.isdisjoint(shop.statuses()):
                claims: list[Claim] = []
                sweep(shop.runtime, claims.append)
                for made in claims:
                    send_batch(shop.runtime, made.token)

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work, shop) for shop in opened]:
                done.result(120)
        assert crowd.most == cap
        wait_until(lambda: crowd.open_sessions == 0, 10, "the last connection to be closed")
        assert set(crowd.copies().values()) == {1}
    assert standing(opened[0]) == {SENT: 60}
    assert (places(opened[0]), opened[0].count(opened[0].tables.lease)) == ({}, 0)


def test_four_tasks_that_start_at_once_have_the_cap_s_connections_and_the_rest_goes_back(
    shops: Shops,
) -> None:
    """The sweep claims no more than the cap; here the claims were made before it was set."""
    with Crowd() as crowd:
        before = shops.open(MAIL_PORT=crowd.port, OUTBOX_BATCH=5, OUTBOX_WINDOW=5)
        write(before, 20)
        claims: list[Claim] = []
        sweep(before.runtime, claims.append)
        assert len(claims) == 4
        gate = crowd.hold_at("reply")
        entry = server("a", crowd.port, connections=2)
        opened = [
            shops.open(OUTBOX_SERVERS=[entry], OUTBOX_BATCH=5, OUTBOX_WINDOW=5) for _ in range(4)
        ]
        with ThreadPoolExecutor(4) as pool:
            tasks = [
                pool.submit(send_batch, shop.runtime, made.token)
                for shop, made in zip(opened, claims, strict=True)
            ]
            wait_until(lambda: gate.reached == 2, 30, "two connections")
            wait_until(lambda: sum(task.done() for task in tasks) == 2, 30, "two without a place")
            gate.open()
            reports = [task.result(30).is_worth_a_sweep for task in tasks]
            assert sorted(reports) == [False, False, True, True]
        assert crowd.most == 2
    assert standing(before) == {SENT: 10, UNTOUCHED: 10}


@pytest.fixture
def full(shops: Shops, catcher: Catcher) -> tuple[Shop, Claim]:
    """Two routes over one server that takes one batch; a started one of the first route has it."""
    shop = shops.open(
        OUTBOX_SERVERS=[server("a", catcher.port, connections=1)],
        OUTBOX_ROUTES=[{"name": "news", "tag": "news", "servers": ["a"]}],
    )
    write(shop, 5, tag="news")
    (first,) = Motion(shop=shop).sweep()
    assert shop.start(first.token)
    assert take_server(shop.database, first.token, ["a"], {"a": 1}) == "a"
    write(shop, 5)
    return shop, first


def test_a_batch_that_finds_its_server_full_gives_back_and_brings_no_sweep(
    full: tuple[Shop, Claim], catcher: Catcher
) -> None:
    """Neither route knows of the other's batches before they start."""
    (shop, first), motion = full, Motion(shop=full[0])
    assert motion.beat() == 1, "once a beat it may look"
    assert (catcher.sessions, standing(shop)[UNTOUCHED]) == (0, 5)
    finish(shop.database, first.token, [], worker=WORKER)
    motion.beat()
    assert standing(shop) == {SENT: 10}


def test_a_drain_beside_a_full_server_ends(full: tuple[Shop, Claim]) -> None:
    shop, _ = full
    assert drain(shop.runtime, progress=bounded()) == 5
    assert standing(shop)[UNTOUCHED] == 5


@pytest.mark.long
def test_a_drain_neither_waits_for_the_place_of_a_dead_worker_nor_claims_for_it(
    shops: Shops, catcher: Catcher
) -> None:
    """Its lease has run out and holds no slot, but it holds its place until the rescue."""
    shop = shops.open(OUTBOX_SERVERS=[server("a", catcher.port, connections=1)])
    write(shop, 20)
    (first,) = Motion(shop=shop).sweep()
    assert shop.start(first.token)
    assert take_server(shop.database, first.token, ["a"], {"a": 1}) == "a"
    write(shop, 20)
    shop.later(LEASE + 1)
    assert drain(shop.runtime, progress=bounded()) == 0
    assert catcher.sessions == 0
    shop.later(LEASE + 1)
    drain(shop.runtime)
    assert standing(shop) == {SENT: 20, ("sent", 1, 1, 0): 20}


def bounded() -> Callable[[int], None]:
    """Return a `progress` that raises where a drain claims without end."""
    calls = iter(range(HOT))

    def progress(_: int) -> None:
        assert next(calls, None) is not None, "claimed and given back without end"

    return progress


@pytest.mark.parametrize("capped", [True, False])
def test_who_goes_over_to_the_next_server_leaves_its_place_to_others(
    shops: Shops, catcher: Catcher, capped: bool
) -> None:
    with StatefulServer({"CONNECT": "421 4.3.2 closing"}) as first:
        servers = [
            server("a", first.port, connections=1),
            server("b", catcher.port, order=2, connections=3 if capped else None),
        ]
        shop = shops.open(OUTBOX_SERVERS=servers)
        write(shop, 5)
        gate = catcher.hold_at("reply")
        motion = Motion(shop=shop)
        motion.sweep()
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(motion.work)
            wait_until(lambda: gate.reached == 1, 30, "the batch on its second server")
            held = places(shop)
            gate.open()
            assert task.result(30)
    assert held == {"b": 1}, "A's place is free"
    assert attempts(shop) == {("b", "sent"): 5}


def test_a_place_comes_free_only_after_its_connection_is_closed(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the next batch would connect while this one still says QUIT."""
    shop = shops.open(OUTBOX_SERVERS=[server("a", catcher.port, connections=1)])
    write(shop, 3)
    order, close = list[str](), Connection.close

    def closes(self: Connection) -> None:  # a spy
        close(self)
        order.append("closed")

    def note(*args: Any) -> None:
        if args[2].startswith("DELETE FROM outbox_lease"):
            order.append("free")

    monkeypatch.setattr(Connection, "close", closes)
    motion = Motion(shop=shop)
    motion.sweep()
    event.listen(shop.engine, "before_cursor_execute", note)
    assert motion.work()
    assert (order[-2:], order.count("free")) == (["closed", "free"], 1)


def test_a_batch_that_found_no_server_leaves_the_connection_of_another_alone(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers with threads: the next batch may have the connection before this one has ended."""
    rested: list[Connection] = []
    monkeypatch.setattr(Connection, "rest", lambda self: rested.append(self))  # a spy
    shop = shops.open()
    write(shop, 1)
    (made,) = Motion(shop=shop).sweep()
    batch = shop.start(made.token)
    assert batch is not None
    with ServerChoice(
        shop.runtime,
        made.token,
        batch,
        progress=lambda: None,
        goes_on=lambda: True,
        stays=lambda: True,
    ) as way:
        assert way.take_first()
        assert not way.take_next({way.server.name})
        way.drop()
        assert not way.take_first()
    with shop.runtime.connections.lend(shop.runtime.servers[0]) as another:
        assert another is way.connection
        assert rested == [another], "before it was put back"
    assert rested == [another], "and not while it is another's"
