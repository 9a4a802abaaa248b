"""A limit on how much a client sends: it is charged to no email, whatever is taken meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outbox.domain.delivery.transaction import Phase
from tests.integration.blame.play import LATEST, world, write
from tests.integration.blame.server import ClassServer, Habit, Seen
from tests.integration.blame.simulation import HOST
from tests.support.shop.shop import message

if TYPE_CHECKING:
    from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

DAY = 86_400.0
TOO_MUCH = "450 4.7.1 Error: too much mail from 192.0.2.1"
TOO_MANY = "450 4.7.1 Error: too many recipients from 192.0.2.1"
LIMITS = {TOO_MUCH: Phase.MAIL, TOO_MANY: Phase.RCPT}
limits = pytest.mark.parametrize("limit", LIMITS, ids=LIMITS.get)


class Throttle:
    """Takes so many in a time. Like Postfix's anvil it counts each anew once the time is over."""

    def __init__(self, most: int, *, seconds: float, opens_after: int = 0) -> None:
        """With `opens_after` the time is over, too, when so many were refused in it."""
        self._most, self._seconds, self._opens_after = most, seconds, opens_after
        self._began, self._taken, self._refused = HOST.now(), 0, 0

    def refuses(self, _: Seen) -> bool:
        is_over = HOST.now() - self._began >= self._seconds
        if is_over or 0 < self._opens_after <= self._refused:
            self._began, self._taken, self._refused = HOST.now(), 0, 0
        self._taken += 1
        self._refused += self._taken > self._most
        return self._taken > self._most


def throttled(limit: str, throttle: Throttle) -> ClassServer:
    made = ClassServer(Habit(phase=LIMITS[limit], answer=limit))
    made.refuses = throttle.refuses
    return made


@pytest.mark.long
@limits
def test_who_met_a_limit_is_not_charged_as_the_next_one_was_taken(limit: str, shops: Shops) -> None:
    """The limit's time was over just then: that says nothing of the email before."""
    server = throttled(limit, Throttle(5, seconds=DAY, opens_after=1))
    with world(shops, server, OUTBOX_MAX_ATTEMPTS=2) as made:
        write(made, readers=100)
        made.simulation.run(seconds=3600.0, gives_up=DAY)
        assert server.refused >= 100 // 6
        assert {(row.status, row.attempts) for row in made.emails("good")} == {("sent", 1)}
        assert set(made.copies.values()) == {1}


@pytest.mark.long
@limits
def test_who_met_a_limit_again_is_not_charged_as_another_was_taken_just_now(
    limit: str, shops: Shops
) -> None:
    """No other email waits that could tell; one that is unlike was taken a moment ago."""
    server = throttled(limit, Throttle(1, seconds=DAY))
    with world(shops, server, OUTBOX_LIFETIME=DAY) as made:
        write(made, message("r@readers.example"), tag="good")
        made.simulation.run(seconds=0.0, gives_up=DAY)
        write(made, *(message("r@one.example") for _ in range(3)))
        for _ in range(12):
            made.simulation.run(seconds=0.0, gives_up=DAY)
            made.simulation.pass_time(5.0)
        assert server.refused > 2
        assert {row.waited > 0 for row in made.emails("bad")} == {True}
        assert {(row.status, row.attempts) for row in made.emails("bad")} == {("pending", 0)}
        server.refuses = lambda _: False
        made.simulation.run(seconds=DAY, gives_up=DAY)
        assert {(row.status, row.attempts) for row in made.emails("bad")} == {("sent", 1)}


@pytest.mark.long
@limits
def test_one_email_that_always_meets_a_limit_delays_nobody_and_ends_by_its_lifetime(
    limit: str, shops: Shops
) -> None:
    server = ClassServer(Habit(phase=LIMITS[limit], answer=limit))
    server.refuses = lambda seen: seen.sender == "news@shop.example"
    one = message("r@readers1.example")
    one.replace_header("From", "news@shop.example")
    with world(shops, server, OUTBOX_LIFETIME=DAY, OUTBOX_MAX_ATTEMPTS=2) as made:
        write(made, one)
        write(made, readers=200)
        made.simulation.run(seconds=3 * DAY, gives_up=LATEST)
        assert {(row.status, row.attempts) for row in made.emails("good")} == {("sent", 1)}
        assert max(made.waits("good")) <= LATEST
        assert [(row.status, row.attempts) for row in made.emails("bad")] == [("failed", 0)]
        assert server.refused < 50


@pytest.mark.long
def test_recipients_behind_a_limit_wait_uncharged_for_those_who_were_accepted(
    shops: Shops,
) -> None:
    """One email to many: each try reaches a few of them, and none of the tries is the last."""
    server = throttled(TOO_MANY, Throttle(2, seconds=3.0))
    to = [f"r{number}@readers.example" for number in range(9)]
    with world(shops, server, OUTBOX_MAX_ATTEMPTS=2) as made:
        write(made, message(*to))
        made.simulation.run(seconds=3600.0, gives_up=DAY)
        assert made.copies == dict.fromkeys(to, 1)
        assert [(row.status, row.attempts) for row in made.emails("bad")] == [("sent", 1)]


@pytest.mark.long
@pytest.mark.parametrize(
    "limit", ["552 5.2.2 Sender quota exceeded", "552 Submission quota exceeded"]
)
@pytest.mark.parametrize("phase", [Phase.RCPT, Phase.DOT])
def test_a_senders_quota_with_the_code_of_a_full_mailbox_charges_nobody(
    limit: str, phase: Phase, shops: Shops
) -> None:
    server = ClassServer(Habit(phase=phase, answer=limit))
    with world(shops, server) as made:
        write(made, *(message(f"r@d{n}.example", subject=str(n)) for n in range(30)))
        made.simulation.run(seconds=600.0, gives_up=DAY)
        assert {(row.status, row.attempts) for row in made.emails("bad")} == {("pending", 0)}
        server.refuses = lambda _: False
        made.simulation.run(seconds=DAY, gives_up=DAY)
        assert {(row.status, row.attempts) for row in made.emails("bad")} == {("sent", 1)}
