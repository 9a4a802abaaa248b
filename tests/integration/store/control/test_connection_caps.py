"""The connection cap of a server: exact, over all workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pytest
from sqlalchemy import event

from outbox.store.control import lease
from outbox.store.control.connection_caps import take_server
from outbox.store.transitions.rescue import rescue
from tests.integration.store.leases import in_flight, leases
from tests.support.shop.shop import LEASE, Shop

pytestmark = pytest.mark.each_database

ONE = {"a": 1}


def taken(shop: Shop) -> dict[str, int]:
    return shop.database.read(lambda c: in_flight(c, shop.database))


def test_a_server_takes_as_many_batches_as_its_cap_and_no_more(shop: Shop) -> None:
    tokens = leases(shop, 3)
    given = [take_server(shop.database, token, ["a"], {"a": 2}) for token in tokens]
    assert given == ["a", "a", None]
    assert taken(shop) == {"a": 2}


def test_the_candidates_are_tried_in_their_order(shop: Shop) -> None:
    first, second, third = leases(shop, 3)
    caps = {"a": 1, "b": 1}
    assert take_server(shop.database, first, ["b", "a"], caps) == "b"
    assert take_server(shop.database, second, ["b", "a"], caps) == "a"
    assert take_server(shop.database, third, ["b", "a", "free"], caps) == "free"
    assert taken(shop) == {"a": 1, "b": 1, "free": 1}


def test_a_place_comes_free_with_the_end_of_its_lease(shop: Shop) -> None:
    first, second = leases(shop, 2)
    take_server(shop.database, first, ["a"], ONE)
    assert take_server(shop.database, second, ["a"], ONE) is None
    lease.drop(shop.database, first)
    assert take_server(shop.database, second, ["a"], ONE) == "a"


def test_a_batch_that_asks_again_keeps_its_place(shop: Shop) -> None:
    (token,) = leases(shop, 1)
    assert take_server(shop.database, token, ["a"], ONE) == "a"
    assert take_server(shop.database, token, ["a"], ONE) == "a"


@pytest.mark.parametrize("other", ["b", "free"])
def test_a_batch_that_changes_over_leaves_its_place_to_others(shop: Shop, other: str) -> None:
    first, second = leases(shop, 2)
    caps = {"a": 1, "b": 1}
    take_server(shop.database, first, ["a"], caps)
    assert take_server(shop.database, first, [other], caps, current="a") == other
    assert take_server(shop.database, second, ["a"], caps) == "a"


def test_a_lost_lease_takes_no_place(shop: Shop) -> None:
    assert take_server(shop.database, uuid4(), ["a"], ONE) is None
    assert taken(shop) == {}


def test_a_dead_workers_place_is_taken_until_its_rescue(shop: Shop) -> None:
    """Its worker may yet renew the lease, though it has run out: the cap would be soft."""
    first, second = leases(shop, 2)
    take_server(shop.database, first, ["a"], ONE)
    shop.later(LEASE + 1)
    assert take_server(shop.database, second, ["a"], ONE) is None
    rescue(shop.database, shop.runtime.settings, random=lambda: 0.5)
    lease.renew(shop.database, [second], lease_seconds=LEASE * 3)
    shop.later(LEASE + 1)
    rescue(shop.database, shop.runtime.settings, random=lambda: 0.5)
    assert take_server(shop.database, second, ["a"], ONE) == "a"


def test_a_server_without_a_cap_costs_no_statement(shop: Shop) -> None:
    (token,) = leases(shop, 1)
    statements: list[str] = []
    event.listen(shop.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    assert take_server(shop.database, token, ["free", "a"], ONE) == "free"
    assert take_server(shop.database, token, ["free"], {}) == "free"
    assert statements == []


def test_no_candidates_is_no_server(shop: Shop) -> None:
    (token,) = leases(shop, 1)
    assert take_server(shop.database, token, [], ONE) is None


@pytest.mark.long
def test_many_who_come_at_once_never_get_more_than_the_caps(shop: Shop) -> None:
    """Also the first time, when the servers have no rows yet; and in opposite orders."""
    workers, rounds = 8, 5
    for number in range(rounds):
        names = [f"a{number}", f"b{number}"]
        caps = dict(zip(names, (2, 3), strict=True))
        tokens, start = leases(shop, workers), Barrier(workers)

        def take(place: int) -> str | None:
            order = names if place % 2 else names[::-1]  # noqa: B023
            start.wait(30)  # noqa: B023
            return take_server(shop.database, tokens[place], order, caps)  # noqa: B023

        with ThreadPoolExecutor(workers) as pool:
            given = list(pool.map(take, range(workers)))
        assert [given.count(name) for name in names] == [2, 3]
        assert given.count(None) == workers - 5
        assert {name: taken(shop)[name] for name in names} == caps


@pytest.mark.long
def test_places_given_and_taken_all_the_time_never_go_over_the_cap(shop: Shop) -> None:
    def work(_: int) -> int:
        most = 0
        for _ in range(10):
            (token,) = leases(shop, 1)
            if take_server(shop.database, token, ["a"], {"a": 2}):
                most = max(most, taken(shop)["a"])
            lease.drop(shop.database, token)
        return most

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(work, range(4)))
    assert 0 < max(seen) <= 2
    assert taken(shop) == {}
