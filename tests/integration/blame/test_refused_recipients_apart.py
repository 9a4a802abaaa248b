"""A server refuses many recipients, in words that no table knows: the others go on, at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from outbox import Priority
from outbox.domain.delivery.breaker_timing import OPEN_FIRST, OPEN_MAX, Cause
from outbox.domain.delivery.refusal_streak import TRIED
from outbox.domain.delivery.transaction import Phase
from tests.integration.blame.play import World, world, write
from tests.integration.blame.server import ClassServer, Habit, Seen
from tests.integration.blame.simulation import HOST
from tests.integration.blame.test_refused_contents_apart import BEAT, is_bad, pass_beats, rows
from tests.support.shop.shop import message

if TYPE_CHECKING:
    from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
REFUSED = "550 No, thank you"
SOON = OPEN_FIRST + 3.0
"""Seconds: the server is halted once, and its first probe shows whose fault it is."""


def refusing(phase: Phase = Phase.RCPT) -> ClassServer:
    """Return a server that refuses each bad recipient, as soon as it knows one."""
    made = ClassServer(Habit(phase=phase, answer=REFUSED))
    made.refuses = is_bad
    return made


def write_bad(made: World, numbers: Iterable[int], *, domain: str = "d{}.example") -> None:
    """Write emails that share nothing but their sender, and with a `domain` also that."""
    write(made, *(message(f"bad{n}@{domain.format(n)}", subject=f"Order {n}") for n in numbers))


def write_good(made: World, numbers: Iterable[int], tag: str = "good") -> None:
    write(made, *(message(f"r{n}@e{n}.example", subject=f"Order {n}") for n in numbers), tag=tag)


def ends(made: World) -> Counter[str]:
    """Return how the bad ones ended: who was refused by a probe may have been tried once more."""
    assert {row.attempts for row in made.emails("bad")} <= {1, 2}
    return Counter(row.status for row in made.emails("bad"))


@pytest.mark.parametrize("phase", [Phase.RCPT, pytest.param(Phase.DATA, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "bad", [10, 30, *(pytest.param(n, marks=pytest.mark.long) for n in (12, 100, 300))]
)
def test_emails_behind_so_many_refused_recipients_wait_some_seconds_once(
    bad: int, phase: Phase, shops: Shops
) -> None:
    with world(shops, refusing(phase)) as made:
        write_bad(made, range(bad))
        write_good(made, range(100))
        made.simulation.run(seconds=HOUR, gives_up=DAY)
        assert rows(made, "good") == {("sent", 1): 100}
        assert max(made.waits("good")) <= SOON * (1 + bad // 100)
        assert ends(made) == {"failed": bad}
        assert set(made.copies.values()) == {1}


@pytest.mark.long
def test_so_it_is_where_the_refused_ones_share_a_few_domains(shops: Shops) -> None:
    with world(shops, refusing()) as made:
        for number in range(30):
            write_bad(made, [number], domain=("qq.example", "mail.example")[number % 2])
        write_good(made, range(100))
        made.simulation.run(seconds=HOUR, gives_up=DAY)
        assert rows(made, "good") == {("sent", 1): 100}
        assert max(made.waits("good")) <= SOON
        assert ends(made) == {"failed": 30}


@pytest.mark.long
def test_a_few_among_many_refused_ones_do_not_wait_for_all_of_these(shops: Shops) -> None:
    with world(shops, refusing()) as made:
        for number in range(200):
            write_bad(made, [number])
            if number % 40 == 20:
                write_good(made, [number])
        made.simulation.run(seconds=MINUTE, gives_up=DAY)
        assert rows(made, "good") == {("sent", 1): 5}
        assert max(made.waits("good")) <= MINUTE


@pytest.mark.long
def test_in_a_quiet_shop_the_orders_that_come_singly_find_the_server_in_use_before_long(
    shops: Shops,
) -> None:
    """Nothing else tells of the server, and those that it refused come again with each order."""
    with world(shops, refusing()) as made:
        write_bad(made, range(12))
        made.simulation.run(seconds=0.0, gives_up=DAY)
        for number in range(30):
            write_good(made, [number], tag="good" if number >= 5 else "first")
            for _ in range(30):
                made.simulation.run(seconds=0.0, gives_up=DAY)
                made.simulation.pass_time(BEAT)
        assert max(made.waits("first")) <= MINUTE
        assert max(made.waits("good")) <= SOON
        assert ends(made) == {"failed": 12}


@pytest.mark.long
def test_so_it_is_while_refused_ones_come_on_and_on(shops: Shops) -> None:
    with world(shops, refusing()) as made:
        write_bad(made, range(100))
        pass_beats(made, 40, comes=18)
        made.simulation.run(seconds=HOUR, gives_up=DAY)
        assert rows(made, "good") == {("sent", 1): 80}
        assert max(made.waits("good")) <= 2 * SOON
        assert ends(made) == {"failed": 100 + 40 * 18}


@pytest.mark.long
@pytest.mark.parametrize("phase", [Phase.RCPT, Phase.DATA])
def test_a_server_that_comes_to_refuse_everybody_charges_nobody(phase: Phase, shops: Shops) -> None:
    """It has refused some recipients before, in the very same words."""
    server = refusing(phase)
    with world(shops, server) as made:
        write_bad(made, range(30))
        write_good(made, range(100))
        made.simulation.run(seconds=HOUR, gives_up=DAY)
        server.refuses = lambda _: True
        sent = made.copies.total()
        write_good(made, range(100, 220), tag="new")
        made.simulation.run(seconds=600.0, gives_up=DAY)
        assert rows(made, "new") == {("pending", 0): 120}
        assert [bool(row.alert) for row in made.shop.rows(made.shop.tables.breaker)] == [True]
        assert made.copies.total() == sent
        server.refuses = is_bad
        made.simulation.run(seconds=2 * HOUR, gives_up=DAY)
        assert rows(made, "new") == {("sent", 1): 120}


@pytest.mark.parametrize(
    "reply",
    [
        REFUSED,
        "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen",
        "554 5.7.1 Relay access denied",
    ],
)
@pytest.mark.long
def test_a_server_that_refuses_everybody_is_asked_seldom_and_charges_nobody(
    reply: str, shops: Shops
) -> None:
    server = refusing()
    server.habit, server.refuses = Habit(phase=Phase.RCPT, answer=reply), lambda _: True
    with world(shops, server) as made:
        write_good(made, range(300), tag="new")
        made.simulation.run(seconds=HOUR, gives_up=DAY)
        assert rows(made, "new") == {("pending", 0): 300}
        assert server.refused <= TRIED * (HOUR / OPEN_MAX[Cause.EMAILS] + 10) + 20
        server.refuses = lambda _: False
        made.simulation.run(seconds=3 * HOUR, gives_up=DAY)
        assert rows(made, "new") == {("sent", 1): 300}


@pytest.mark.long
def test_a_quota_in_strange_words_that_frees_a_place_now_and_then_charges_nobody(
    shops: Shops,
) -> None:
    server, taken_at = refusing(), [-DAY]

    def is_full(_: Seen) -> bool:
        if is_over := HOST.now() - taken_at[0] > 20.0:
            taken_at[0] = HOST.now()
        return not is_over

    server.refuses = is_full
    with world(shops, server) as made:
        write_good(made, range(60), tag="new")
        write(made, message("code@e.example", subject="x"), tag="urgent", priority=Priority.URGENT)
        for _ in range(300):
            made.simulation.run(seconds=0.0, gives_up=DAY)
            made.simulation.pass_time(BEAT)
        found = rows(made, "new")
        assert set(found) <= {("sent", 1), ("pending", 0)}
        assert found["sent", 1] > 5


@pytest.mark.long
def test_a_server_that_recovers_while_it_is_probed_fails_nobody(shops: Shops) -> None:
    """It refuses the first three emails of the probe, and takes the fourth."""
    server = refusing()
    server.refuses = lambda _: server.refused < limit
    limit = 10**6
    with world(shops, server) as made:
        write_good(made, range(30), tag="new")
        made.simulation.run(seconds=0.0, gives_up=DAY)
        limit = server.refused + 3
        made.simulation.run(seconds=HOUR, gives_up=DAY)
        assert Counter(row.status for row in made.emails("new")) == {"sent": 30}
        assert set(made.copies.values()) == {1}
