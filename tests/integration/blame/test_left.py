"""A class of which only the halted emails are left: it ends, though the others come and go."""

from __future__ import annotations

from email.message import EmailMessage
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from outbox.domain.delivery.breaker_timing import OPEN_FIRST
from outbox.domain.delivery.transaction import Phase
from outbox.store.control.blame.comparison import JUST_NOW
from tests.integration.blame.play import LATEST, world, write
from tests.integration.blame.server import ClassServer, Habit
from tests.support.shop.shop import message

if TYPE_CHECKING:
    from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

LIFETIME = 600.0
DAY = 86_400.0
FAST = "fast@shop.example"
BUSY = "450 4.3.2 not now"


def from_the_sender(number: int) -> EmailMessage:
    """Return a message of the sender that is halted."""
    made = message(f"r{number}@d{number % 3}.example")
    made.replace_header("From", FAST)
    return made


def halting() -> ClassServer:
    made = ClassServer(Habit(phase=Phase.MAIL, answer=BUSY))
    made.refuses = lambda seen: seen.sender == FAST
    return made


@pytest.mark.long
def test_a_class_ends_by_its_lifetime_where_others_are_taken_now_and_then(shops: Shops) -> None:
    """Each minute one comes, and is gone at once: it waits beside none that is halted."""
    with world(shops, halting(), OUTBOX_LIFETIME=LIFETIME) as made:
        write(made, *map(from_the_sender, range(30)))
        while {row.status for row in made.emails("bad")} != {"failed"}:
            write(made, message("r@readers.example"), tag="good")
            for _ in range(12):
                made.simulation.run(seconds=0.0, gives_up=DAY)
                made.simulation.pass_time(5.0)
            assert made.simulation.passed < 2 * LIFETIME
        assert {row.status for row in made.emails("good")} == {"sent"}
        assert max(made.waits("good")) <= LATEST


@pytest.mark.long
def test_who_was_taken_some_time_ago_speaks_against_nobody_in_an_outage(shops: Shops) -> None:
    with world(shops, halting(), OUTBOX_LIFETIME=DAY) as made:
        write(made, *map(from_the_sender, range(5)))
        for _ in range(10):
            write(made, message("r@readers.example"), tag="good")
            made.simulation.run(seconds=0.0, gives_up=DAY)
            made.simulation.pass_time(20.0)
        assert {row.status for row in made.emails("good")} == {"sent"}
        assert {row.waited > 0 for row in made.emails("bad")} == {True}
        charged = sum(row.attempts for row in made.emails("bad"))
        made.simulation.pass_time(JUST_NOW)
        for one in made.servers:
            one.refuses = lambda _: True
        made.simulation.run(seconds=3600.0, gives_up=DAY)
        assert sum(row.attempts for row in made.emails("bad")) == charged


@pytest.mark.long
def test_nor_does_who_was_taken_while_the_databases_clock_was_ahead(shops: Shops) -> None:
    with world(shops, halting(), OUTBOX_LIFETIME=DAY) as made:
        made.simulation.shop.later(2 * JUST_NOW)
        write(made, message("r@readers.example"), tag="good")
        made.simulation.run(seconds=0.0, gives_up=DAY)
        assert {row.status for row in made.emails("good")} == {"sent"}
        made.simulation.shop.later(-2 * JUST_NOW)
        for one in made.servers:
            one.refuses = lambda _: True
        write(made, *map(from_the_sender, range(5)))
        made.simulation.run(seconds=JUST_NOW / 2, gives_up=DAY)
        assert {row.waited > 0 for row in made.emails("bad")} == {True}
        assert {row.attempts for row in made.emails("bad")} == {0}


@pytest.mark.long
def test_two_of_a_class_in_a_row_stop_no_email_while_others_were_just_taken(shops: Shops) -> None:
    """A large provider halts what it gets, and each email is gone before the next one comes."""
    with world(shops, halting(), OUTBOX_LIFETIME=DAY) as made:
        for _ in range(20):
            for mail in (message("r@readers.example"), *map(from_the_sender, range(2))):
                tag = "bad" if mail["From"] == FAST else "good"
                write(made, mail, tag=tag)
                made.simulation.run(seconds=0.0, gives_up=DAY)
            assert "open" not in {row.state for row in made.shop.rows(made.shop.tables.breaker)}
            assert {row.status for row in made.emails("good")} == {"sent"}, "none has waited"
            made.simulation.pass_time(0.5)


@pytest.mark.long
def test_two_in_a_row_show_that_a_server_has_halted_everything_for_five_seconds(
    shops: Shops,
) -> None:
    with world(shops, halting(), OUTBOX_LIFETIME=DAY) as made:
        write(made, message("r@readers.example"), tag="good")
        made.simulation.run(seconds=0.0, gives_up=DAY)
        for number in range(2):
            made.simulation.pass_time(OPEN_FIRST)
            assert not made.shop.rows(made.shop.tables.breaker, sa.text("state = 'open'"))
            write(made, from_the_sender(number))
            made.simulation.run(seconds=0.0, gives_up=DAY)
        assert made.shop.rows(made.shop.tables.breaker, sa.text("state = 'open'"))
