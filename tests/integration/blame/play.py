"""Plays a case: a class of emails that always get one reply, among good ones; and judges it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from random import Random
from typing import Any

import sqlalchemy as sa

from outbox import Priority
from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Phase, Verdict
from outbox.store.schema.clock import utc
from tests.integration.blame import emails
from tests.integration.blame.cases import LACKS, Case, Part, Servers
from tests.integration.blame.server import (
    EXTENSIONS,
    GARBAGE,
    ClassServer,
    Habit,
    stop_reading,
    tear,
    time_out,
)
from tests.integration.blame.simulation import Simulation
from tests.support.servers.smtp.scripted import Step
from tests.support.servers.smtp.stateful import hang_up
from tests.support.shop.shop import Shop, Shops, addresses, newsletter
from tests.support.shop.steps.motion import server

LATEST = 60.0
"""Simulated seconds that a good email may wait."""

GIVEN_UP = 600.0
"""Simulated seconds after which a good email that still waits ends the simulation."""

LIFETIMES = 12
"""After so many lifetimes every email must have ended: what is no try is not counted in one."""

TRIES = 50
"""Claims of one email, and connections for it, from which on it is a loop."""

_ENDS = {Verdict.UNKNOWN: "unknown", Verdict.NEXT: "sent"}


@dataclass(kw_only=True)
class World:
    """Servers, and a shop whose first server is the first of them; at the beginning of time."""

    servers: Sequence[ClassServer]
    shop: Shop
    simulation: Simulation

    def emails(self, tag: str) -> Sequence[sa.Row[Any]]:
        """Return the rows of the good ones, or of the bad ones."""
        email = self.shop.tables.email
        return self.shop.rows(email, email.c.tag == tag)

    @property
    def copies(self) -> Counter[str]:
        """How many copies each recipient got."""
        return sum((one.copies for one in self.servers), Counter())

    def waits(self, tag: str) -> list[float]:
        """Return the seconds that each has waited so far, or had to wait until it ended."""
        now = self.simulation.now()
        return [
            (utc(row.finished_at or now) - utc(row.send_at or row.created_at)).total_seconds()
            for row in self.emails(tag)
        ]


@contextmanager
def world(
    shops: Shops,
    *servers: ClassServer,
    orders: Sequence[int] = (1, 2),
    threads: int = 1,
    **config: Any,
) -> Iterator[World]:
    """Start the servers, and open a shop that sends over them."""
    with ExitStack() as stack:
        for one in servers:
            stack.enter_context(one)
        entries = [
            server(name, one.port, order=order)
            for name, one, order in zip("ab", servers, orders, strict=False)
        ]
        shop = shops.open(OUTBOX_SERVERS=entries, **config)
        shop.runtime.random = _hardly_random(Random(1).random)
        simulation = Simulation(shop=shop, threads=threads)
        yield World(servers=servers, shop=shop, simulation=simulation)
        shop.runtime.disconnect()


def write(
    made: World, *emails: EmailMessage, readers: int = 0, tag: str = "bad", **options: Any
) -> None:
    """Write these emails, and good ones to so many readers, and commit."""
    shop = made.shop
    options = {"priority": Priority.NORMAL} | options
    with shop.session() as session:
        shop.outbox.enqueue_many(emails, session=session, tag=tag, **options)
        if readers:
            to = addresses(readers)
            shop.outbox.enqueue_many(
                newsletter(), to, session=session, tag="good", priority=Priority.NORMAL
            )
        session.commit()


def _hardly_random(draw: Callable[[], float]) -> Callable[[], float]:
    """Have what is put off together come back within a second: few moments, and quick tests."""
    return lambda: 0.5 + 1e-5 * draw()


def play(case: Case, shops: Shops, *, threads: int = 1) -> None:
    """Let time pass until every email has ended, and judge what has become of them."""
    servers = _servers(case)
    orders = (1, 2) if case.servers is Servers.FIRST else (1, 1)
    config: dict[str, Any] = {"OUTBOX_LIFETIME": case.lifetime}
    if case.part.said == Event.TOO_LONG:  # the reply's own time-out is longer
        config["OUTBOX_TRANSACTION_TIMEOUT"] = 100.0
    with world(shops, *servers, orders=orders, threads=threads, **config) as made:
        emails.write(made.shop, case, made.simulation.now())
        for one in servers:
            one.refuses = emails.trait(made.shop, case)
        made.simulation.run(seconds=LIFETIMES * case.lifetime, gives_up=GIVEN_UP)
        judge(case, made)


def _servers(case: Case) -> list[ClassServer]:
    lacks = case.part.said if case.part.said in LACKS else ""
    habit = None if lacks else _habit(case.part)
    good = (*EXTENSIONS, *(["PIPELINING"] if case.pipelining else []))
    offers = tuple(e for e in good if e.partition(" ")[0] != lacks)
    if lacks == "SIZE":
        offers = (*offers, f"SIZE {emails.LARGE // 2}")
    servers = [ClassServer(habit, extensions=offers)]
    if case.servers is Servers.BOTH:
        servers.append(ClassServer(habit, extensions=offers))
    elif case.servers is not Servers.ONE:
        servers.append(ClassServer(extensions=good))
    return servers


def _habit(part: Part) -> Habit:
    """Return what the server does for this part."""
    in_body = part.phase is Phase.BODY
    events: dict[str, Step] = {
        Event.CLOSED: tear if in_body else hang_up,
        Event.TIMEOUT: stop_reading if in_body else time_out,
        Event.GARBAGE: GARBAGE,
        Event.TOO_LONG: time_out,
    }
    answer = events[part.said] if part.said in set(Event) else part.said
    return Habit(phase=part.phase, answer=answer, after_accepted=part.row.after_accepted)


def judge(case: Case, made: World) -> None:
    """The good ones are there in a minute, once; the others have ended as their row says."""
    good, bad, copies = made.emails("good"), made.emails("bad"), made.copies
    told = _told(made)
    assert Counter(row.status for row in good) == {"sent": case.good}, told
    assert max(made.waits("good")) <= LATEST, told
    assert {copies[row.recipient] for row in good} == {1}, told
    assert {(row.attempts, row.unknown_count) for row in good} == {(1, 0)}, (
        f"they are charged: {told}"
    )
    ends = {_ENDS.get(case.part.row.verdict, "failed")}
    if case.servers in (Servers.FIRST, Servers.EITHER):
        ends |= {"sent"}
    assert {row.status for row in bad} <= ends, told
    for row in bad:
        assert (row.status == "sent") <= (copies[row.recipient] == 1), told
        assert (row.status == "failed") <= (copies[row.recipient] == 0), told
    most = TRIES * (len(bad) + 1)
    assert made.simulation.claims <= most, told
    assert sum(one.connections for one in made.servers) <= most, told


def _told(made: World) -> str:
    ends = {tag: dict(Counter(row.status for row in made.emails(tag))) for tag in ("good", "bad")}
    waits = made.waits("good")
    return (
        f"after {made.simulation.passed:.0f} s: good {ends['good']}, of which"
        f" {sum(wait > LATEST for wait in waits)} late, the last after {max(waits):.0f} s;"
        f" bad {ends['bad']}; {made.simulation.claims} claims,"
        f" {[one.connections for one in made.servers]} connections; breakers"
        f" {[dict(row._mapping) for row in made.shop.rows(made.shop.tables.breaker)]}"
    )
