"""Ten minutes without the SMTP server and thousands of emails waiting: it costs nobody anything."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from outbox import Priority
from outbox.store.records import Claim
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.sweep import sweep
from tests.support.servers.ports import free_port
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import (
    DATA,
    GREET,
    MAIL,
    RCPT,
    ScriptedServer,
    close,
    expect,
    reset,
)
from tests.support.shop.shop import Shop, Shops, addresses, newsletter
from tests.support.waiting import wait_until

pytestmark = pytest.mark.over_and_over

WORKERS = 4
TEN_MINUTES = 600.0
STEP = 5.0  # seconds of the database's clock between two sweeps
BIG = "x" * 70 + "\n"
PROBE_SECONDS = 0.02


class Workers:
    """Worker processes in small: each has a runtime of its own, and all sweep at the same time."""

    def __init__(self, shops: list[Shop]) -> None:
        self.shops = shops
        self._pool = ThreadPoolExecutor(len(shops))

    def later(self, seconds: float) -> None:
        for shop in self.shops:
            shop.later(seconds)

    def turn(self) -> int:
        """Sweep and send once in every worker; return how many batches were claimed."""
        return sum(self._pool.map(self._work, self.shops))

    def close(self) -> None:
        self._pool.shutdown()

    def _work(self, shop: Shop) -> int:
        claims: list[Claim] = []
        sweep(shop.runtime, claims.append)
        for made in claims:
            send_batch(shop.runtime, made.token)
        return len(claims)


class Counted:
    """A server that is up and takes nothing: it counts who asks it, and how many at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.most = self.probes = 0

    def greet(self, dialogue: Dialogue) -> None:
        with self._lock:
            self._now += 1
            self.probes += 1
            self.most = max(self.most, self._now)
        dialogue.stopped.wait(PROBE_SECONDS)  # so that two at once are seen to be two
        with self._lock:
            self._now -= 1
        dialogue.say("421 4.3.2 down")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def workers(shops: Shops, port: int, emails: int) -> Iterator[Workers]:
    batch = emails // 25
    opened = [
        shops.open(MAIL_PORT=port, OUTBOX_BATCH=batch, OUTBOX_SLOTS=WORKERS) for _ in range(WORKERS)
    ]
    with closing(Workers(opened)) as made:
        yield made


@pytest.fixture
def emails(database_url: str, pytestconfig: pytest.Config) -> int:
    if not database_url.startswith("postgresql"):
        return 500
    return 10_000 if pytestconfig.getoption("--whole") else 3_000


def enqueue(shop: Shop, emails: int) -> None:
    """Write so many emails; the first of each worker's first batch is too big for any buffer."""
    batch, everybody = emails // 25, addresses(emails)
    for start in range(0, WORKERS * batch, batch):
        send(shop, everybody[start : start + 1], BIG * 75_000)
        send(shop, everybody[start + 1 : start + batch])
    send(shop, everybody[WORKERS * batch :])


def send(shop: Shop, readers: list[str], text: str = "New ink!") -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(
            newsletter(text), readers, session=session, priority=Priority.NORMAL
        )
        session.commit()


def spent(shop: Shop) -> set[tuple[str, int, int, int]]:
    rows = shop.rows(shop.tables.email)
    return {(row.status, row.attempts, row.crashes, row.unknown_count) for row in rows}


def die_in_the_middle_of_bodies(workers: Workers, port: int) -> None:
    """Cut each worker's connection while it writes a body, and listen no more."""
    cut, in_body = threading.Event(), threading.Semaphore(0)

    def tear(dialogue: Dialogue) -> None:
        dialogue.receive()
        in_body.release()
        cut.wait(60)
        reset(dialogue)

    script = (GREET, expect("EHLO", "250 scripted.example"), MAIL, RCPT, DATA, tear)
    claims: list[Claim] = []
    assert sweep(workers.shops[0].runtime, claims.append)
    assert len(claims) == WORKERS
    with ScriptedServer(*[script] * WORKERS, port=port) as server:
        with ThreadPoolExecutor(WORKERS) as pool:
            work = [
                pool.submit(send_batch, shop.runtime, made.token)
                for shop, made in zip(workers.shops, claims, strict=True)
            ]
            for _ in work:
                assert in_body.acquire(timeout=60)
            server.refuse()
            cut.set()
            assert all(done.result(60) for done in work)
        assert not server.bodies


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.one_database("postgresql")
def test_ten_minutes_of_outage_charge_nobody_and_everything_is_delivered_after_it(
    workers: Workers, port: int, emails: int
) -> None:
    shop, nobody_paid = workers.shops[0], {("pending", 0, 0, 0)}
    enqueue(shop, emails)
    die_in_the_middle_of_bodies(workers, port)
    assert spent(shop) == nobody_paid

    down = Counted()
    with ScriptedServer(*[(down.greet, close)] * 1000, port=port):
        for _ in range(int(TEN_MINUTES / STEP)):
            workers.later(STEP)
            workers.turn()
    assert spent(shop) == nobody_paid
    assert shop.count(shop.tables.attempt) == shop.count(shop.tables.lease) == 0
    assert down.most == 1, "probes at once"
    assert 5 <= down.probes <= 8, "after 5, 10, 20, 40, 80, 160 seconds"

    catcher = Catcher()
    catcher.port = port
    with catcher:
        workers.later(301)
        wait_until(lambda: not workers.turn(), 150, lambda: f"the drain: {spent(shop)}")
        assert spent(shop) == {("sent", 1, 0, 0)}
        assert shop.count(shop.tables.breaker) == 0
        assert len(catcher.emails) == len(catcher.copies()) == emails
