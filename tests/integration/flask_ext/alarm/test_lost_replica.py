"""PostgreSQL's synchronous replica is gone, so each commit waits: who looks is told, and soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from outbox.flask_ext.management.checks import long_waits
from tests.integration.lost_replica import Primary, primary
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.databases("postgresql")

PATIENCE = 60.0
REMEDY = (
    "start the replica, or take it out of synchronous_standby_names and reload;"
    " but if it was promoted, stop this server: else emails go twice"
)
Result = TypeVar("Result")


@pytest.fixture(scope="module")
def server() -> Iterator[Primary]:
    with primary() as found:
        yield found


@pytest.fixture
def shop(server: Primary) -> Shop:
    """A healthy outbox that was watched."""
    shop = server.shops.open()
    for email in shop.rows(shop.tables.email):
        shop.outbox.cancel_now(email.id)
    shop.outbox.watch()
    return shop


def in_time(what: Callable[[], Result]) -> Result:
    """Return the result. What hangs fails the test, and goes on once the replica is back."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(what).result(PATIENCE)
    finally:
        pool.shutdown(wait=False)


@pytest.mark.long
def test_a_watch_notes_the_turn_and_tells_once(server: Primary, shop: Shop) -> None:
    shop.enqueue()
    with server.alone():
        told = [in_time(lambda: shop.outbox.watch(0)) for _ in range(2)]
    assert [one is None for one in told] == [False, True]


@pytest.mark.long
def test_a_watch_whose_telling_fails_tells_again(server: Primary, shop: Shop) -> None:
    shop.enqueue()
    with server.alone():
        for _ in range(2):
            output = in_time(
                lambda: runner(shop)("watch", "--max-age", "0", "--", "false", code=1).output
            )
            assert "false exited 1: the next watch tells again" in output


@pytest.mark.long
@pytest.mark.parametrize("long", [False, True])
def test_health_and_check_tell_for_what_commits_wait(
    server: Primary, shop: Shop, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_waits, "LEAST", 1)
    monkeypatch.setattr(long_waits, "LONG", 1 if long else 1000)
    with server.awaited(shop.enqueue, seconds=1.5):
        health, check = shop.outbox.health(), runner(shop)("check", code=1).output
    [line] = health.problems if long else health.warnings
    told = "commits wait for a synchronous replica (synchronous_standby_names = nobody): 1 session"
    assert line.startswith(f"{told} has waited for ")
    assert line.endswith(REMEDY)
    assert f"error  {told}" in check
    assert not [one for one in shop.outbox.health().warnings if told in one]
