"""A server that refuses everybody in words that change: it is at fault, as with one text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import cycle, product
from typing import TYPE_CHECKING

import pytest

from outbox.domain.delivery.transaction import Phase
from tests.integration.blame.play import LATEST, World, world, write
from tests.integration.blame.server import ClassServer, Habit
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.shop.shop import message

if TYPE_CHECKING:
    from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

DAY = 86_400.0
NODES = (
    "554 5.7.1 relay-ams.example.net: this client is not welcome",
    "554 5.7.1 Service unavailable; Client host blocked using zen.spamhaus.example",
)
UNKNOWN = "550 5.1.1 no such user"
GREYLISTED = "451 4.7.1 Greylisted, come back later"


class Nodes(ClassServer):
    """Several nodes behind one name: each connection comes to the next one, with its own words."""

    def __init__(self, phase: Phase, *words: str) -> None:
        super().__init__(Habit(phase=phase, answer=self._answer))
        self._words = cycle(words)
        self._node: dict[int, str] = {}

    def _answer(self, dialogue: Dialogue) -> None:
        known = self._node.get(id(dialogue))
        if known is None:
            known = self._node[id(dialogue)] = next(self._words)
        dialogue.say(known)


def letters() -> Iterator[str]:
    """Yield ids without a digit, of small letters only."""
    return ("".join(some) for some in product("abcdefghijklm", repeat=6))


class Ids(ClassServer):
    """Refuses with an id of its own each time, which no pattern knows for one."""

    def __init__(self, phase: Phase) -> None:
        super().__init__(Habit(phase=phase, answer=self._answer))
        self._ids = letters()

    def _answer(self, dialogue: Dialogue) -> None:
        dialogue.say(f"554 5.7.1 Refused, see report {next(self._ids)}")


def ends(made: World, tag: str = "bad") -> Counter[tuple[str, int]]:
    return Counter((row.status, row.attempts) for row in made.emails(tag))


def write_each(made: World, count: int, name: str = "r", tag: str = "bad") -> None:
    """Write emails of different contents to different domains."""
    to = (f"{name}{n}@{name}{n}.example" for n in range(count))
    write(made, *(message(one, subject=one) for one in to), tag=tag)


PHASES = [Phase.MAIL, Phase.RCPT, Phase.DATA, Phase.DOT]


@pytest.mark.parametrize(
    "phase",
    [one if one is Phase.RCPT else pytest.param(one, marks=pytest.mark.long) for one in PHASES],
)
def test_nodes_that_each_refuse_in_words_of_their_own_charge_nobody(
    phase: Phase, shops: Shops
) -> None:
    server = Nodes(phase, *NODES)
    with world(shops, server) as made:
        write_each(made, 60)
        made.simulation.run(seconds=600.0, gives_up=DAY)
        assert ends(made) == {("pending", 0): 60}
        assert [bool(row.alert) for row in made.shop.rows(made.shop.tables.breaker)] == [True]
        server.refuses = lambda _: False
        made.simulation.run(seconds=2 * 3600.0, gives_up=DAY)
        assert ends(made) == {("sent", 1): 60}
        assert set(made.copies.values()) == {1}


@pytest.mark.long
@pytest.mark.parametrize("phase", PHASES)
def test_so_it_is_where_no_two_refusals_have_the_same_words(phase: Phase, shops: Shops) -> None:
    server = Ids(phase)
    with world(shops, server) as made:
        write_each(made, 100)
        made.simulation.run(seconds=600.0, gives_up=DAY)
        assert ends(made) == {("pending", 0): 100}
        assert [bool(row.alert) for row in made.shop.rows(made.shop.tables.breaker)] == [True]
        server.refuses = lambda _: False
        made.simulation.run(seconds=2 * 3600.0, gives_up=DAY)
        assert ends(made) == {("sent", 1): 100}


@pytest.mark.long
def test_the_last_email_taken_was_another_senders_and_words_about_the_host_still_tell(
    shops: Shops,
) -> None:
    server = ClassServer(Habit(phase=Phase.RCPT, answer=NODES[1]))
    refuses, server.refuses = server.refuses, lambda _: False
    with world(shops, server) as made:
        write(made, message("a@a.example", sender="boss@shop.example"), tag="boss")
        made.simulation.run(seconds=60.0, gives_up=DAY)
        assert ends(made, "boss") == {("sent", 1): 1}
        server.refuses = refuses
        write_each(made, 60)
        made.simulation.run(seconds=600.0, gives_up=DAY)
        assert ends(made) == {("pending", 0): 60}
        assert [bool(row.alert) for row in made.shop.rows(made.shop.tables.breaker)] == [True]


@pytest.mark.long
@pytest.mark.parametrize("own", [UNKNOWN, GREYLISTED])
@pytest.mark.parametrize("every", [2, 7, 25])
def test_one_who_is_refused_or_put_off_for_themselves_in_between_hides_no_outage(
    own: str, every: int, shops: Shops
) -> None:
    """The server looks at the recipient before it looks at the client."""
    server = ClassServer(Habit(phase=Phase.RCPT, answer=NODES[0]))
    server.mailbox = lambda address: own if address.startswith("own") else None
    with world(shops, server) as made:
        for number in range(60):
            is_own = number % every == 0
            write_each_one(made, number, "own" if is_own else "r", "own" if is_own else "bad")
        made.simulation.run(seconds=25.0, gives_up=DAY)
        assert {end for end, _ in ends(made).items()} == {("pending", 0)}
        server.refuses = lambda _: False
        made.simulation.run(seconds=2 * 3600.0, gives_up=DAY)
        assert {end for end, _ in ends(made).items()} == {("sent", 1)}
        if own is UNKNOWN:
            assert {end for end, _ in ends(made, "own").items()} == {("failed", 1)}


def write_each_one(made: World, number: int, name: str, tag: str) -> None:
    to = f"{name}{number}@{name}{number}.example"
    write(made, message(to, subject=to), tag=tag)


@pytest.mark.long
@pytest.mark.parametrize(("bad", "is_first"), [(35, True), (35, False), (200, True), (200, False)])
def test_an_old_list_whose_addresses_are_refused_in_many_words_stops_no_other_and_ends(
    bad: int, is_first: bool, shops: Shops
) -> None:
    words, ids = dict[str, str](), letters()

    def mailbox(address: str) -> str | None:
        if not address.startswith("gone"):
            return None
        return words.setdefault(address, f"550 5.7.1 Refused: {next(ids)}")

    server = ClassServer()
    server.mailbox = mailbox
    with world(shops, server) as made:
        if is_first:
            write_each(made, bad, "gone")
        for number in range(300):
            write_each_one(made, number, "r", "good")
            if not is_first and number % (300 // bad or 1) == 0:
                write_each_one(made, number, "gone", "bad")
        made.simulation.run(seconds=DAY, gives_up=DAY)
        assert ends(made, "good") == {("sent", 1): 300}
        assert max(made.waits("good")) <= LATEST
        assert {status for status, _ in ends(made)} == {"failed"}
        assert made.copies.total() == 300
