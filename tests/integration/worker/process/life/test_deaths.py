"""A process that has ended keeps no slot, if its host knows; its emails are judged no earlier."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from outbox import Status
from outbox.domain.fleet import ProcessId
from outbox.store.control import lease
from outbox.store.control.connection_caps import take_server
from outbox.store.records import Claim
from outbox.store.transitions.rescue import rescue
from outbox.store.transitions.start import start
from outbox.worker.fleet.deaths import Deaths
from outbox.worker.process.own_process import process_of
from tests.integration.store.leases import in_flight
from tests.support.shop.shop import LEASE, WORKER, Shop

pytestmark = pytest.mark.each_database

SERVER = "mx.example:25"


class Other:
    """Another process, which does nothing."""

    def __init__(self, stack: ExitStack) -> None:
        self._process = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(self._process.kill)
        found = process_of(self._process.pid)
        assert found is not None
        self.id = found

    @property
    def pid(self) -> int:
        return self.id.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def other() -> Iterator[Other]:
    with ExitStack() as stack:
        yield Other(stack)


def started(shop: Shop, process: ProcessId | None) -> Claim:
    """Enqueue an email, and have a process start its batch."""
    shop.enqueue()
    (made,) = shop.claim()
    found = start(shop.database, made.token, lease_seconds=LEASE, worker=WORKER, process=process)
    assert found is not None
    return made


def look(shop: Shop, deaths: Deaths) -> None:
    shop.database.run(lambda connection: deaths.free_slots(connection, shop.database))


def quiet(shop: Shop, *children: int) -> Deaths:
    """Return what watches these children, and has looked for what ended before it began."""
    deaths = Deaths(lambda: children)
    while deaths.are_due():
        look(shop, deaths)
    return deaths


def held(shop: Shop) -> int:
    """Return how many leases hold, and so take a slot."""
    table = shop.tables.lease
    return len(shop.rows(table, table.c.expires_at > shop.database.now()))


def taken(shop: Shop) -> dict[str, int]:
    return shop.database.run(lambda connection: in_flight(connection, shop.database))


def judged(shop: Shop) -> int:
    return rescue(shop.database, shop.runtime.settings, random=lambda: 0.5).leases


@pytest.mark.long
def test_a_killed_child_s_batch_gives_up_its_slot_and_waits_for_its_judgement(
    shop: Shop, other: Other
) -> None:
    started(shop, other.id)
    deaths = quiet(shop, other.pid)
    assert held(shop) == 1
    other.kill()
    assert deaths.are_due()
    look(shop, deaths)
    assert held(shop) == 0
    assert judged(shop) == 0
    shop.later(LEASE - 5)
    assert judged(shop) == 0
    assert shop.statuses() == [Status.CLAIMED]
    shop.later(10)
    assert judged(shop) == 1
    [email] = shop.rows(shop.tables.email)
    assert (email.status, email.crashes) == (Status.PENDING, 1)


def test_nothing_is_asked_of_the_database_while_nobody_ends(shop: Shop, other: Other) -> None:
    deaths = quiet(shop, other.pid)
    assert not deaths.are_due()
    other.kill()
    looks = 0
    while deaths.are_due():
        look(shop, deaths)
        looks += 1
    assert looks == 2, "the first may come before the dead process's last commit is done"


def test_who_starts_finds_what_ended_before(shop: Shop, other: Other) -> None:
    started(shop, other.id)
    other.kill()
    assert held(shop) == 1
    quiet(shop)
    assert held(shop) == 0


def test_a_dead_worker_s_child_that_lives_on_keeps_its_slot_until_it_ends(
    shop: Shop, other: Other
) -> None:
    """The child is no child of ours. Its lease tells that it is there."""
    started(shop, other.id)
    deaths = quiet(shop)
    assert held(shop) == 1
    assert not deaths.are_due()
    other.kill()
    assert deaths.are_due()
    look(shop, deaths)
    assert held(shop) == 0


def test_a_neighbour_s_end_is_seen(shop: Shop, other: Other) -> None:
    deaths = quiet(shop)
    deaths.watch([other.id, replace(other.id, boot="of another host", pid=1)])
    assert not deaths.are_due()
    other.kill()
    assert deaths.are_due()


@pytest.mark.parametrize("boot", ["of another host", None])
def test_of_another_host_or_of_an_unknown_process_nothing_is_known(
    shop: Shop, other: Other, boot: str | None
) -> None:
    started(shop, replace(other.id, boot=boot) if boot else None)
    other.kill()
    quiet(shop)
    assert held(shop) == 1


def test_a_batch_that_was_given_up_in_error_goes_on_with_its_next_renewal(shop: Shop) -> None:
    made = started(shop, None)
    shop.database.run(lambda c: lease.let_run_out(c, shop.database, [made.token]))
    assert (held(shop), judged(shop)) == (0, 0)
    assert lease.renew(shop.database, [made.token], lease_seconds=LEASE).renewed
    shop.later(LEASE - 5)
    assert (held(shop), judged(shop)) == (1, 0)


def test_a_dead_process_holds_no_connection_to_a_server_with_a_cap(
    shop: Shop, other: Other
) -> None:
    made = started(shop, other.id)
    assert take_server(shop.database, made.token, [SERVER], {SERVER: 1}) == SERVER
    assert taken(shop) == {SERVER: 1}
    other.kill()
    quiet(shop)
    assert taken(shop) == {}
