"""What a process does until it dies: the web's part, or a worker's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from outbox.store.control.pause import pause, resume
from outbox.worker.broker.queues import QUEUES, SWEEP_QUEUE
from outbox.worker.fleet.deaths import Deaths
from outbox.worker.sweep import sweep
from tests.kill.stage.shop import LEASE, Shop, message, stop_clock
from tests.support.waiting import wait_until

ROUNDS = 40
"""Leaps of the clock, each past a lease, after which everything must have come to rest."""

_NEXT = """
for _, queue in ipairs(KEYS) do
    local message = redis.call('RPOP', queue)
    if message then return message end
end
"""

Task = tuple[str, list[str]]
"""A task as it comes from the broker: its name and its arguments."""


class Delivery(StrEnum):
    """How the broker delivers one of the tasks, or all of them."""

    ONCE = "once"
    TWICE = "twice"  # at once again
    AGAIN = "again"  # and again when all is over
    LATE = "late"  # only when all is over
    REVERSED = "reversed"  # the last one first, of all that are there


@dataclass(kw_only=True)
class Worker:
    """Does what a worker does under beat: the real tasks, one at a time, until nothing is due."""

    shop: Shop
    beat: bool = True  # or else it takes only what is in the queues
    rounds: int = ROUNDS
    delivery: Delivery = Delivery.ONCE
    task: int = -1  # which one is delivered so
    sees_deaths: bool = False  # as a worker does that starts on the same host
    by_clock: bool = True  # it also does what is due now and then, such as to sum the figures up
    tasks: int = 0
    failures: list[str] = field(default_factory=list)
    held: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.delivery = Delivery(self.delivery)  # it may come as JSON

    def work(self) -> dict[str, Any]:
        """Work until nothing is due, now or later; return how many tasks came, and what failed.

        The clock leaps past a lease after each round, but for the last of a few `rounds`.
        """
        if not self.by_clock:
            stop_clock(self.shop.runtime)
        if self.sees_deaths:
            free_slots_of_the_dead(self.shop)
        with _inbox(self.shop, every=self.delivery is Delivery.REVERSED) as take:
            for left in reversed(range(self.rounds)):
                if self.beat:
                    self._run(("outbox.sweep", []))
                self._take_all(take)
                if self.shop.is_at_rest() or not left:
                    break
                self.shop.runtime.database.offset += LEASE + 1
            if self.rounds == ROUNDS and not self.shop.is_at_rest():
                raise AssertionError(f"no rest after {ROUNDS} leases: {self.shop.standing()}")
            for late in self.held:
                self._run(late)
            self._take_all(take)
        return {"tasks": self.tasks, "failures": self.failures}

    def _take_all(self, take: Callable[[], list[Task]]) -> None:
        while taken := take():
            for task in reversed(taken):  # several only where they are to be reversed
                chosen, self.tasks = self.tasks == self.task, self.tasks + 1
                self._deliver(task, self.delivery if chosen else Delivery.ONCE)

    def _deliver(self, task: Task, how: Delivery) -> None:
        if how in (Delivery.AGAIN, Delivery.LATE):
            self.held.append(task)
        if how is not Delivery.LATE:
            self._run(task)
        if how is Delivery.TWICE:
            self._run(task)

    def _run(self, task: Task) -> None:
        name, arguments = task
        try:
            self.shop.celery.tasks[name](*arguments)
        except Exception as error:  # noqa: BLE001  (as in Celery: the next one finds it alive)
            self.failures.append(f"{name}: {type(error).__name__}")


def free_slots_of_the_dead(shop: Shop) -> None:
    """Have the leases of the processes of this host that have ended run out."""
    deaths, database = Deaths(lambda: ()), shop.runtime.database
    while deaths.are_due():
        database.run(lambda connection: deaths.free_slots(connection, database))


def rescue_only(shop: Shop) -> None:
    """Judge what the lost have left, and send nothing: sweeps with every priority paused."""
    database = shop.runtime.database
    database.run(lambda connection: pause(connection, database, None))
    for _ in range(ROUNDS):
        sweep(shop.runtime, lambda _: None)
        if shop.is_unleased():
            database.run(lambda connection: resume(connection, database, None))
            return
        database.offset += LEASE + 1
    raise AssertionError("a lease was not judged")


@contextmanager
def _inbox(shop: Shop, *, every: bool) -> Iterator[Callable[[], list[Task]]]:
    """Yield how to take the next message from the broker, or every one that is there.

    Kombu asks each queue at four priorities; one command for all of them is ten times as fast.
    """
    names = [queue.name for queue in QUEUES]
    with shop.celery.connection_for_read() as connection:
        channel = connection.default_channel

        def take() -> list[Task]:
            taken: list[Task] = []
            while (every or not taken) and (raw := channel.client.eval(_NEXT, len(names), *names)):
                found = channel.Message(json.loads(raw), channel=channel)
                taken.append((found.headers["task"], list(found.payload[0])))
            return taken

        yield take


CUSTOMERS = {
    "ada": ("ada@one.example",),
    "bob": ("bob@one.example", "bob@two.example"),
    "cyd": ("cyd-1@one.example", "cyd-2@one.example", "cyd-3@one.example"),
}
"""The orders of the web process, and to whom the emails of each go."""


def serve(shop: Shop, published: Callable[[], int]) -> None:
    """Do what a web process does: three orders with their emails, and one that is rolled back.

    It waits for each nudge, which another thread publishes, so that their order is always the same.
    A worker has taken it before the next order comes: that would need no nudge else. An order whose
    commit fails is rolled back, as every view does it.
    """
    nudges = 0
    with shop.app.app_context():
        for customer in CUSTOMERS:
            with shop.sessions() as session:
                _order(shop, session, customer)
                try:
                    session.commit()
                except OperationalError:
                    session.rollback()
                    continue
            nudges += 1
            wait_until(lambda least=nudges: published() >= least, 20, "the nudge")  # type: ignore[misc]
            with shop.celery.connection_for_write() as connection:
                connection.default_channel.queue_purge(SWEEP_QUEUE)
        with shop.sessions() as session:
            _order(shop, session, "eve")
            session.rollback()


def _order(shop: Shop, session: Session, customer: str) -> None:
    session.execute(sa.insert(shop.orders).values(customer=customer))
    addresses = CUSTOMERS.get(customer, (f"{customer}@one.example",))
    match customer:
        case "bob":
            shop.outbox.enqueue(message(*addresses), session=session, key=customer)
        case "cyd":
            letter = message()
            del letter["To"]
            shop.outbox.enqueue_many(letter, addresses, session=session)
        case _:
            shop.outbox.enqueue(message(*addresses), session=session)
