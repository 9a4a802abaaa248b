"""When a process that left a server to other hosts tries it again, and by which batch."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.reach import PAUSE_FIRST, Reach

ROUTE = ("a", "b")


class Time:
    """A clock that stands still."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_server_is_tried_again_when_its_pause_is_over_and_not_before() -> None:
    time = Time()
    reach = Reach(time)
    assert not reach.was_left("b")
    reach.leave("b")
    with reach.trying(ROUTE) as server:
        assert server is None
    time.now += PAUSE_FIRST
    assert (reach.was_left("a"), reach.was_left("b")) == (False, True)
    with reach.trying(ROUTE) as server:
        assert server == "b"


def test_one_batch_tries_it_and_the_next_one_does_after_that() -> None:
    time = Time()
    reach = Reach(time)
    for server in ROUTE:
        reach.leave(server)
    time.now += PAUSE_FIRST
    with reach.trying(ROUTE) as first, reach.trying(ROUTE) as second, reach.trying(ROUTE) as third:
        assert (first, second, third) == ("a", "b", None)
    with pytest.raises(RuntimeError), reach.trying(ROUTE):
        raise RuntimeError
    with reach.trying(ROUTE) as again:
        assert again == "a"


def test_a_session_that_opens_ends_it_also_during_a_try() -> None:
    time = Time()
    reach = Reach(time)
    reach.leave("a")
    time.now += PAUSE_FIRST
    with reach.trying(ROUTE) as server:
        assert server == "a"
        reach.opened("a")
    assert not reach.was_left("a")
    with reach.trying(ROUTE) as server:
        assert server is None


def test_a_failure_that_other_hosts_share_is_no_reason_to_leave() -> None:
    """The breaker opens for all, and a probe follows."""
    reach = Reach(Time())
    reach.witness_seconds("a")
    assert not reach.was_left("a")
    with reach.trying(ROUTE) as server:
        assert server is None
