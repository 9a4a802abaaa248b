"""A filter refuses many emails, each of its own content: the others go on, and these end."""

from __future__ import annotations

from collections import Counter
from email.message import EmailMessage
from typing import TYPE_CHECKING

import pytest

from outbox import Priority
from outbox.domain.delivery.breaker_timing import OPEN_FIRST
from outbox.domain.delivery.transaction import Phase
from tests.integration.blame.play import LATEST, World, world, write
from tests.integration.blame.server import ClassServer, Habit, Seen
from tests.integration.blame.simulation import HOST
from tests.support.shop.shell import runner
from tests.support.shop.shop import message

if TYPE_CHECKING:
    from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

DAY = 86_400.0
REFUSED = "550 5.7.1 message content rejected"
BEAT = 2.0
"""Simulated seconds between two looks."""
BEATS = int(1.25 * LATEST / BEAT)
"""Whoever waited through all of them would be late."""


def bad(number: int) -> EmailMessage:
    return message(f"bad{number}@d{number}.example", subject=f"Forbidden {number}")


def filtering() -> ClassServer:
    """Return a server that knows the bad ones only by their contents."""
    made = ClassServer(Habit(phase=Phase.DOT, answer=REFUSED))
    made.refuses = is_bad
    return made


def is_bad(seen: Seen) -> bool:
    return any(one.startswith("bad") for one in seen.recipients)


def come(made: World, number: int) -> None:
    """Write a code and an order that the server takes, each to its own domain."""
    for kind, priority in (("code", Priority.URGENT), ("order", Priority.NORMAL)):
        mail = message(f"{kind}{number}@{kind}{number}.example", subject=f"Your {kind} {number}")
        write(made, mail, tag="good", priority=priority)


def pass_beats(made: World, beats: int, *, start: int = 0, comes: int = 0) -> None:
    """Let so many beats pass, in which good ones come, and as many bad ones as `comes` says."""
    for number in range(start, start + beats):
        come(made, number)
        if comes:
            write(made, *(bad(1000 + number * comes + n) for n in range(comes)))
        made.simulation.run(seconds=0.0, gives_up=DAY)
        made.simulation.pass_time(BEAT)


def rows(made: World, tag: str) -> Counter[tuple[str, int]]:
    return Counter((row.status, row.attempts) for row in made.emails(tag))


@pytest.mark.parametrize("size", [12, pytest.param(450, marks=pytest.mark.long)])
def test_contents_that_a_filter_refuses_stop_no_other_and_end(size: int, shops: Shops) -> None:
    with world(shops, filtering()) as made:
        write(made, *map(bad, range(size)))
        pass_beats(made, 40)
        made.simulation.run(seconds=600.0, gives_up=DAY)
        assert rows(made, "good") == {("sent", 1): 80}
        assert max(made.waits("good")) <= LATEST
        assert rows(made, "bad") == {("failed", 1): size}
        assert set(made.copies.values()) == {1}


@pytest.mark.long
def test_so_it_is_while_bad_ones_come_on_and_on(shops: Shops) -> None:
    with world(shops, filtering()) as made:
        write(made, *map(bad, range(100)))
        pass_beats(made, BEATS, comes=18)
        made.simulation.run(seconds=600.0, gives_up=DAY)
        assert rows(made, "good") == {("sent", 1): 2 * BEATS}
        assert max(made.waits("good")) <= LATEST
        assert rows(made, "bad") == {("failed", 1): 100 + BEATS * 18}


@pytest.mark.long
def test_a_few_good_ones_among_many_bad_ones_do_not_wait_for_all_of_these(shops: Shops) -> None:
    """None is urgent, none is newer, and nothing but the contents tells them apart."""
    with world(shops, filtering()) as made:
        for number in range(200):
            write(made, bad(number))
            if number % 40 == 20:
                write(made, message(f"good{number}@g{number}.example", subject="x"))
        made.simulation.run(seconds=2 * LATEST, gives_up=DAY)
        found = Counter(row.status for row in made.emails("bad") if row.recipient[:4] == "good")
        assert found == {"sent": 5}


@pytest.mark.long
def test_a_server_that_comes_to_refuse_every_email_charges_nobody(shops: Shops) -> None:
    """It has refused some contents before, in the very same words."""
    server = filtering()
    with world(shops, server) as made:
        write(made, *map(bad, range(50)))
        pass_beats(made, 40)
        assert rows(made, "bad") == {("failed", 1): 50}
        server.refuses = lambda _: True
        sent = made.copies.total()
        write(made, *(message(f"r{n}@s{n}.example", subject=str(n)) for n in range(120)), tag="new")
        made.simulation.run(seconds=600.0, gives_up=DAY)
        assert rows(made, "new") == {("pending", 0): 120}
        assert [bool(row.alert) for row in made.shop.rows(made.shop.tables.breaker)] == [True]
        assert made.copies.total() == sent
        server.refuses = is_bad
        made.simulation.run(seconds=2 * 3600.0, gives_up=DAY)
        assert rows(made, "new") == {("sent", 1): 120}


@pytest.mark.long
def test_a_drain_that_ends_there_says_why_and_when_to_run_it_again(shops: Shops) -> None:
    with world(shops, filtering()) as made:
        write(made, *map(bad, range(12)))
        write(made, message("a@good.example", subject="x"), tag="good")
        run = runner(made.shop)
        told = run("drain", code=1).output.strip().splitlines()[-1]
        assert "is halted since" in told
        assert "550 5.7.1" in told
        assert "emails are still due: run flask outbox drain again after the next probe" in told
        made.simulation.pass_time(OPEN_FIRST + 1.0)
        made.shop.app.test_cli_runner().invoke(args=["outbox", "drain"])
        assert rows(made, "good") == {("sent", 1): 1}


@pytest.mark.long
def test_a_quota_in_strange_words_that_frees_a_place_now_and_then_charges_nobody(
    shops: Shops,
) -> None:
    server, taken_at = filtering(), [-DAY]

    def is_full(_: Seen) -> bool:
        if is_over := HOST.now() - taken_at[0] > 20.0:
            taken_at[0] = HOST.now()
        return not is_over

    server.refuses = is_full
    with world(shops, server) as made:
        write(made, *(message(f"r{n}@s{n}.example", subject=str(n)) for n in range(60)), tag="new")
        for _ in range(150):
            made.simulation.run(seconds=0.0, gives_up=DAY)
            made.simulation.pass_time(BEAT)
        ends = rows(made, "new")
        assert set(ends) <= {("sent", 1), ("pending", 0)}
        assert ends["sent", 1] > 5


@pytest.mark.long
@pytest.mark.parametrize("mailbox", ["450 4.2.0 mailbox busy", "550 5.1.1 no such user"])
def test_a_probe_whose_mailbox_is_refused_tells_nothing_of_the_contents_before_it(
    mailbox: str, shops: Shops
) -> None:
    """The server refuses every content; who is refused before it has no content to judge."""
    server = filtering()
    server.refuses = lambda _: True
    with world(shops, server) as made:
        write(made, *map(bad, range(30)))
        made.simulation.run(seconds=0.0, gives_up=DAY)
        assert rows(made, "bad") == {("pending", 0): 30}
        server.mailbox = lambda address: mailbox if address.startswith("no") else None
        for number in range(20):
            write(
                made, message(f"no{number}@n{number}.example"), tag="no", priority=Priority.URGENT
            )
            made.simulation.run(seconds=0.0, gives_up=DAY)
            made.simulation.pass_time(BEAT)
        assert rows(made, "bad") == {("pending", 0): 30}
