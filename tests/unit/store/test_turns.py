"""Few database connections for many tasks: nobody is passed by, and no place is lost."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from outbox.store.connection.database import Database
from outbox.store.connection.turns import Turns
from outbox.store.schema.tables import define
from tests.support.greenlets import printed_by
from tests.support.waiting import wait_until

PLACES, MANY, SECONDS = 3, 30, 30.0


class Visitors:
    """Threads that enter in the order in which they came, and stay until they are let out."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.inside: list[int] = []
        self.entered: list[int] = []
        self._out = [threading.Event() for _ in range(MANY)]
        self._threads: list[threading.Thread] = []

    def come(self) -> None:
        number = len(self._threads)
        thread = threading.Thread(target=self._visit, args=(number,), daemon=True)
        self._threads.append(thread)
        thread.start()
        wait_until(
            lambda: len(self.entered) + len(self.turns._waiting) == number + 1,
            SECONDS,
            "it to enter or to wait",
        )

    def await_entered(self, number: int) -> None:
        wait_until(lambda: len(self.entered) == number, SECONDS, "the next one to enter")

    def let_out(self, number: int) -> None:
        self._out[number].set()
        self._threads[number].join(SECONDS)
        assert not self._threads[number].is_alive()

    def _visit(self, number: int) -> None:
        with self.turns:
            self.inside.append(number)
            self.entered.append(number)
            assert self._out[number].wait(SECONDS)
            self.inside.remove(number)


def test_they_enter_in_the_order_in_which_they_came_and_no_more_than_there_are_places() -> None:
    turns = Turns(PLACES)
    visitors = Visitors(turns)
    for _ in range(MANY):
        visitors.come()
    assert visitors.inside == list(range(PLACES))
    for number in range(MANY):
        visitors.let_out(number)
        expected = min(MANY, number + 1 + PLACES)
        visitors.await_entered(expected)
        assert visitors.inside == list(range(number + 1, expected))
    assert visitors.entered == list(range(MANY))
    assert turns._free == PLACES


def test_who_is_inside_enters_again_at_once() -> None:
    turns = Turns(1)
    with turns, turns:
        with turns:
            pass
        assert turns._free == 0
    assert turns._free == 1


def test_an_error_inside_frees_the_place() -> None:
    turns = Turns(1)
    with pytest.raises(ValueError, match="boom"), turns:
        raise ValueError("boom")
    assert turns._free == 1


KILLED = """
import gevent
from outbox.store.connection.turns import Turns

turns, entered = Turns(1), []

def visit(name):
    with turns:
        entered.append(name)
        gevent.sleep(0)

with turns:
    waiting = [gevent.spawn(visit, name) for name in ("killed", "called", "last")]
    gevent.sleep(0)
    waiting[0].kill()
    waiting[1].kill(block=False)  # it ends when its turn has come, before it knows of that
gevent.joinall(waiting, timeout=30)
print(entered, turns._free, len(turns._waiting))
"""


@pytest.mark.long
def test_a_greenlet_that_is_ended_while_it_waits_passes_its_turn_on() -> None:
    assert printed_by(KILLED) == "['last'] 1 0"


@pytest.mark.parametrize(
    ("pool", "wanted", "given"),
    [
        ({"pool_size": 5, "max_overflow": 10}, 25, 5),
        ({"pool_size": 50}, 25, 25),
        ({"pool_size": 2, "max_overflow": 0}, 25, 2),
        ({"pool_size": 5, "max_overflow": -1}, 25, 25),
        ({"pool_size": 0}, 25, 25),
        ({"poolclass": sa.NullPool}, 25, 25),
    ],
)
def test_tasks_share_no_more_connections_than_the_pool_keeps_open(
    pool: dict[str, object], wanted: int, given: int
) -> None:
    options = {"poolclass": sa.QueuePool} | pool
    engine = sa.create_engine("sqlite:////of/nobody.db", **options)
    database = Database(engine, define(sa.MetaData()))
    database.share(wanted)
    assert database._turns is not None
    assert database._turns.places == given


def test_the_child_of_a_fork_waits_for_nobody_of_its_parent() -> None:
    engine = sa.create_engine("sqlite:////of/nobody.db", poolclass=sa.QueuePool)
    database = Database(engine, define(sa.MetaData()))
    database.after_fork()
    assert database._turns is None
    database.share(1)
    before = database._turns
    assert before is not None
    with before:
        database.after_fork()
        assert database._turns is not None
        assert database._turns.places == database._turns._free == 1
