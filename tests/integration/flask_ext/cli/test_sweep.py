"""`flask outbox sweep` counts what the broker took, and fails where that is not all."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from celery import Celery

from outbox import Priority, Status
from outbox.celery_config import configure
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.ports import free_port
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.one_database("postgresql"),
    pytest.mark.filterwarnings("ignore:.*socket.socket"),
]


@pytest.fixture
def shop(shops: Shops) -> Iterator[Shop]:
    """A shop whose broker is away."""
    made = shops.open(OUTBOX_NUDGE=False)
    wired(made, f"redis://127.0.0.1:{free_port()}/0")
    yield made
    gc.collect()  # kombu leaves the sockets of failed tries to it


def wired(shop: Shop, url: str) -> None:
    configure(Celery("shop", broker=url), shop.app)


@pytest.mark.one_broker("redis")
def test_sweep_hands_out_what_is_due(shops: Shops, broker: Broker) -> None:
    shop = shops.open(OUTBOX_NUDGE=False)
    wired(shop, broker.url)
    for _ in range(2):
        shop.enqueue()
    assert runner(shop)("sweep").output == "2 emails handed out\n"
    wait_until(lambda: broker.waiting() == 1, 20, "the batch waits")


@pytest.mark.long
def test_sweep_fails_where_the_broker_is_away(shop: Shop) -> None:
    run, ids = runner(shop), [shop.enqueue().id for _ in range(2)]
    output = run("sweep", code=1).output
    assert output.startswith("0 emails handed out\nError: 2 emails were not published (")
    assert "Error). They stay claimed: when their lease has ended, a later sweep hands" in output
    assert {shop.status(one) for one in ids} == {Status.CLAIMED}
    assert run("sweep").output == "0 emails handed out\n", "nothing is due"
    shop.rescue()
    assert "2 emails were not published" in run("sweep", code=1).output


@pytest.mark.long
def test_it_tells_how_many_the_broker_took_before_it_failed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for priority in Priority:
        shop.enqueue(priority=priority)
    answers = iter([True, False])  # then it is away

    def publish(*_: object) -> bool:
        found = next(answers, None)
        if found is None:
            raise OSError("gone, with a password in its text")
        return found

    monkeypatch.setattr(shop.runtime, "publish", publish)
    output = runner(shop)("sweep", code=1).output
    assert "1 email handed out\n" in output
    told = "2 emails were not published (OSError; no worker takes those that wait). They stay"
    assert told in output
    assert "password" not in output


@pytest.mark.long
def test_the_jobs_are_done_and_pauses_told_before_it_fails(shop: Shop) -> None:
    run = runner(shop)
    shop.enqueue()
    shop.enqueue(priority="bulk", tag="news")
    run("pause", "bulk")
    run("job", "start", "cancel", "--tag", "news")
    output = run("sweep", code=1).output
    assert "paused: bulk" in output
    assert "done    100%" in run("job", "show", 1).output
