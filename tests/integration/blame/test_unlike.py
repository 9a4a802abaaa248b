"""Emails that are halted, and have little in common: they stop no other, either."""

from __future__ import annotations

from email.message import EmailMessage
from typing import TYPE_CHECKING

import pytest

from outbox.domain.delivery.transaction import Phase
from tests.integration.blame.play import GIVEN_UP, LATEST, world, write
from tests.integration.blame.server import ClassServer, Habit
from tests.support.servers.smtp.stateful import hang_up
from tests.support.shop.shop import message

if TYPE_CHECKING:
    from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

HOUR, DAY = 3600.0, 86_400.0
BUSY = "421 4.3.2 busy"


def of(sender: str, to: str, size: int = 61) -> EmailMessage:
    """Return a message with this sender, and a text of about so many octets."""
    made = message(to)
    made.replace_header("From", sender)
    made.set_content(("x" * 60 + "\n") * (size // 61))
    return made


@pytest.mark.long
@pytest.mark.parametrize("bad", [6, 20])
def test_tenants_who_are_halted_and_share_nothing_stop_no_other(bad: int, shops: Shops) -> None:
    """Each has a sender and a recipient domain of its own: no two suspects are of one class."""
    server = ClassServer(Habit(phase=Phase.MAIL, answer=BUSY))
    server.refuses = lambda seen: "tenant" in seen.sender
    with world(shops, server, OUTBOX_LIFETIME=HOUR) as made:
        write(made, *(of(f"a@tenant{n}.example", f"b@own{n}.example") for n in range(bad)))
        write(made, readers=200)
        made.simulation.run(seconds=3 * HOUR, gives_up=GIVEN_UP)
        assert {(row.status, row.attempts) for row in made.emails("good")} == {("sent", 1)}
        assert max(made.waits("good")) <= LATEST
        assert {row.status for row in made.emails("bad")} == {"failed"}


@pytest.mark.long
def test_a_newsletter_whose_readers_have_a_sender_each_stops_no_other(shops: Shops) -> None:
    server = ClassServer(Habit(phase=Phase.MAIL, answer=BUSY))
    server.refuses = lambda seen: seen.sender.endswith("@news.example")
    with world(shops, server) as made:
        write(made, *(of(f"b+{n}@news.example", f"r@d{n % 7}.example") for n in range(100)))
        write(made, readers=200)
        made.simulation.run(seconds=LATEST, gives_up=DAY)
        assert {(row.status, row.attempts) for row in made.emails("good")} == {("sent", 1)}
        assert max(made.waits("good")) <= LATEST


@pytest.mark.long
def test_an_email_that_is_a_little_smaller_is_smaller(shops: Shops) -> None:
    """Over 8 kB all is halted: what has 6 kB must not wait for what has 10."""
    server = ClassServer(Habit(phase=Phase.MAIL, answer="452 4.3.1 insufficient system storage"))
    server.refuses = lambda seen: seen.size > 8_000
    with world(shops, server) as made:
        write(made, *(of("shop@shop.example", "r@one.example", 10_000) for _ in range(40)))
        good = (of("shop@shop.example", "r@one.example", 6_000) for _ in range(100))
        write(made, *good, tag="good")
        made.simulation.run(seconds=LATEST, gives_up=DAY)
        assert {(row.status, row.attempts) for row in made.emails("good")} == {("sent", 1)}
        assert max(made.waits("good")) <= LATEST


@pytest.mark.long
@pytest.mark.parametrize("phase", [Phase.MAIL, Phase.RCPT])
def test_an_email_alone_whose_connections_are_dropped_waits_for_a_server_that_takes_it(
    phase: Phase, shops: Shops
) -> None:
    """A server that drops whatever it is given costs nobody a life: it may be an outage."""
    server = ClassServer(Habit(phase=phase, answer=hang_up))
    server.refuses = lambda _: is_down
    is_down = True
    with world(shops, server) as made:
        write(made, message("a@one.example"), tag="good")
        made.simulation.run(seconds=3600.0, gives_up=DAY)
        [email] = made.emails("good")
        assert (email.status, email.attempts, email.crashes) == ("pending", 0, 0)
        is_down = False
        made.simulation.run(seconds=3 * DAY, gives_up=DAY)
        assert [row.status for row in made.emails("good")] == ["sent"]
