"""Claiming: in order of priority and time, never twice, and never more than asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from uuid import UUID

import pytest
from sqlalchemy import Connection, Update, event, insert, update

from outbox import Priority, Status
from outbox.domain.scheduling.claim_plan import ClaimRequest, InFlight
from outbox.store.connection.database import Database
from outbox.store.control import pause
from outbox.store.queries.sweep import server_limits
from outbox.store.queries.sweep.sweep_snapshot import Snapshot, read_snapshot
from outbox.store.transitions.claim import claim
from outbox.worker.sweep import sweep
from tests.support.shop.shop import LEASE, START, Shop, addresses, newsletter
from tests.support.shop.steps.claims import claim_batch

pytestmark = [pytest.mark.each_database, pytest.mark.each_driver]


def claimed(shop: Shop) -> list[int]:
    return [row.id for row in shop.rows(shop.tables.email) if row.status == Status.CLAIMED]


def test_the_emails_that_were_due_first_are_claimed_first(shop: Shop) -> None:
    late = shop.enqueue(send_at=START - timedelta(days=1))
    early = shop.enqueue(send_at=START - timedelta(days=2))
    newest = shop.enqueue()

    assert sum(made.emails for made in shop.claim(1)) == 1
    assert claimed(shop) == [early.id]
    assert sum(made.emails for made in shop.claim(1)) == 1
    assert claimed(shop) == [late.id, early.id]
    shop.claim(1)
    assert claimed(shop) == [late.id, early.id, newest.id]


def test_emails_due_at_the_same_moment_are_claimed_in_the_order_of_their_ids(shop: Shop) -> None:
    ids = [shop.enqueue(send_at=START).id for _ in range(3)]
    shop.claim(2)
    assert claimed(shop) == ids[:2]


def test_a_claim_takes_one_priority_only(shop: Shop) -> None:
    emails = {priority: shop.enqueue(priority=priority).id for priority in Priority}
    shop.claim(priority=Priority.URGENT)
    assert claimed(shop) == [emails[Priority.URGENT]]
    shop.claim(priority=Priority.BULK)
    assert claimed(shop) == [emails[Priority.URGENT], emails[Priority.BULK]]


def test_a_sweep_hands_out_urgent_email_before_normal_and_bulk(shop: Shop) -> None:
    for priority in (Priority.BULK, Priority.NORMAL, Priority.URGENT):
        shop.enqueue(priority=priority)
    order: list[Priority] = []
    assert sweep(shop.runtime, lambda made: order.append(made.priority)) == 3
    assert order == [Priority.URGENT, Priority.NORMAL, Priority.BULK]


def test_an_email_is_not_claimed_before_its_time(shop: Shop) -> None:
    later = shop.enqueue(send_at=START + timedelta(days=36_500))
    assert shop.claim() == []
    assert shop.status(later.id) is Status.PENDING
    shop.later(36_600 * 86_400)
    assert len(shop.claim()) == 1


def test_a_claim_moves_the_email_out_of_its_own_predicate(shop: Shop) -> None:
    email = shop.enqueue()
    (made,) = shop.claim()
    row = shop.email_row(email.id)
    assert (row.status, row.token, row.due_at) == (Status.CLAIMED, made.token, None)
    assert shop.claim() == []


def test_a_claim_is_one_lease_of_its_priority(shop: Shop) -> None:
    shop.enqueue(priority=Priority.BULK)
    shop.enqueue(priority=Priority.BULK)
    (made,) = shop.claim(priority=Priority.BULK)
    (lease,) = shop.rows(shop.tables.lease)
    assert made.emails == 2
    assert (lease.token, lease.priority, lease.started_at) == (made.token, Priority.BULK, None)
    assert lease.expires_at - lease.claimed_at >= timedelta(seconds=LEASE - 1)


def test_a_claim_that_finds_nothing_leaves_no_lease(shop: Shop) -> None:
    assert shop.claim() == []
    assert shop.count(shop.tables.lease) == 0


@pytest.mark.parametrize("scope", [None, Priority.NORMAL])
def test_nothing_paused_is_handed_out(shop: Shop, scope: Priority | None) -> None:
    email = shop.enqueue()
    assert shop.database.run(lambda c: pause.pause(c, shop.database, scope))
    assert not shop.database.run(lambda c: pause.pause(c, shop.database, scope))
    assert sweep(shop.runtime, lambda _: None) == 0
    assert shop.status(email.id) is Status.PENDING

    assert shop.database.run(lambda c: pause.resume(c, shop.database, scope))
    assert not shop.database.run(lambda c: pause.resume(c, shop.database, scope))
    assert sweep(shop.runtime, lambda _: None) == 1


def test_pausing_one_priority_lets_the_others_go(shop: Shop) -> None:
    shop.enqueue(priority=Priority.BULK)
    urgent = shop.enqueue(priority=Priority.URGENT)
    shop.database.run(lambda c: pause.pause(c, shop.database, Priority.BULK))
    assert sweep(shop.runtime, lambda _: None) == 1
    assert claimed(shop) == [urgent.id]


@pytest.mark.long
def test_many_who_claim_at_once_claim_every_email_and_none_twice(shop: Shop) -> None:
    threads, emails = 6, 300
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(emails), session=session)
        session.commit()
    barrier = Barrier(threads)

    def worker() -> list[tuple[UUID, int]]:
        own = Database(shop.engine, shop.tables)
        barrier.wait(30)
        found: list[tuple[UUID, int]] = []
        while made := claim_batch(own, Priority.BULK, 7, lease_seconds=LEASE):
            found += [(one.token, one.emails) for one in made]
        return found

    with ThreadPoolExecutor(threads) as pool:
        results = [future.result() for future in [pool.submit(worker) for _ in range(threads)]]

    claims = [one for result in results for one in result]
    tokens = [row.token for row in shop.rows(shop.tables.email)]
    assert None not in tokens
    assert sum(size for _, size in claims) == emails
    assert len({token for token, _ in claims}) == len(claims)
    assert {token: tokens.count(token) for token in set(tokens)} == dict(claims)
    assert max(size for _, size in claims) <= 7


def test_an_email_that_lost_two_workers_is_claimed_alone(shop: Shop) -> None:
    ids = [shop.enqueue().id for _ in range(4)]
    email = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(update(email).where(email.c.id == ids[1]).values(crashes=2))
        connection.execute(update(email).where(email.c.id == ids[2]).values(crashes=1))

    claims = shop.claim()
    tokens = {row.id: row.token for row in shop.rows(email)}
    assert sorted(made.emails for made in claims) == [1, 3]
    assert tokens[ids[0]] == tokens[ids[2]] == tokens[ids[3]] != tokens[ids[1]]
    assert {made.token for made in claims} == set(tokens.values())
    assert {row.token for row in shop.rows(shop.tables.lease)} == set(tokens.values())


@pytest.mark.long
def test_emails_that_go_alone_take_no_more_batches_than_were_asked_for(shop: Shop) -> None:
    ids = [shop.enqueue().id for _ in range(9)]
    email = shop.tables.email
    lone = update(email).where(email.c.id != ids[4]).values(crashes=2, unknown_token=UUID(int=1))
    with shop.engine.begin() as connection:
        connection.execute(lone)
    before = {row.id: row for row in shop.rows(email)}

    three = ClaimRequest(lane="", priority=Priority.NORMAL, batches=3, size=9)
    claims = claim(shop.database, [three], lease_seconds=LEASE)

    assert [made.emails for made in claims] == [1, 1, 1]
    assert claimed(shop) == [ids[0], ids[1], ids[4]]
    waiting = [row for row in shop.rows(email) if row.id not in claimed(shop)]
    assert waiting == [before[row.id] for row in waiting]


@pytest.mark.parametrize("batches", [1, 3])
def test_emails_that_go_alone_let_one_batch_of_those_behind_them_pass(
    shop: Shop, batches: int
) -> None:
    ids = [shop.enqueue().id for _ in range(20)]
    email = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(update(email).where(email.c.id <= ids[13]).values(crashes=2))
    request = ClaimRequest(lane="", priority=Priority.NORMAL, batches=batches, size=4)

    claims = claim(shop.database, [request], lease_seconds=LEASE)

    lone = max(1, batches - 1)
    assert [made.emails for made in claims] == [4] + [1] * lone
    assert claimed(shop) == [*ids[:lone], *ids[14:18]]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("batches", "full", "made"),
    [(1, 0, [3, 1]), (2, 0, [3, 1]), (2, 1, [3, 3, 1]), (3, 1, [3, 3, 1])],
)
def test_a_batch_among_emails_that_go_alone_is_filled_and_no_second_one_goes(
    shop: Shop, batches: int, full: int, made: list[int]
) -> None:
    """Beside the last batch one email goes alone: one claim and one email more than asked for."""
    before = [shop.enqueue().id for _ in range(3 * full)]
    lone, among, other, *behind = [shop.enqueue().id for _ in range(9)]
    email = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(update(email).where(email.c.id.in_([lone, other])).values(crashes=2))
    request = ClaimRequest(lane="", priority=Priority.NORMAL, batches=batches, size=3)

    claims = claim(shop.database, [request], lease_seconds=LEASE)

    assert [one.emails for one in claims] == made
    assert claimed(shop) == [*before, lone, among, *behind[:2]]
    tokens = {row.id: row.token for row in shop.rows(email)}
    assert [tokens[i] for i in (among, *behind[:2])] == [claims[-2].token] * 3
    assert tokens[lone] == claims[-1].token


def test_beside_a_batch_that_is_nearly_full_no_other_passes(shop: Shop) -> None:
    ids = [shop.enqueue().id for _ in range(9)]
    email = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(update(email).where(email.c.id == ids[0]).values(crashes=2))
    assert [made.emails for made in shop.claim(limit=3)] == [2, 1]
    assert claimed(shop) == ids[:3]


@pytest.mark.databases("mariadb")
def test_a_batch_that_is_filled_counts_no_email_twice_and_none_that_another_sweep_claimed(
    shop: Shop,
) -> None:
    """Where one statement cannot select and claim, another sweep may come in between."""
    lone, among, other, faster, last = [shop.enqueue().id for _ in range(5)]
    email, theirs = shop.tables.email, UUID(int=1)
    with shop.engine.begin() as connection:
        connection.execute(update(email).where(email.c.id.in_([lone, other])).values(crashes=2))
    values = {"status": Status.CLAIMED, "token": theirs, "due_at": None}
    taken = update(email).where(email.c.id == faster).values(values)
    steps = 0

    def claims_first(conn: Connection, clause: object, *_: object) -> None:
        nonlocal steps
        steps += isinstance(clause, Update) and clause is not taken
        if steps == 3:  # the batch, the email that goes alone, and now what fills the batch
            steps += 1
            conn.execute(taken)

    event.listen(shop.engine, "before_execute", claims_first)
    claims = shop.claim(limit=3)
    event.remove(shop.engine, "before_execute", claims_first)
    assert [made.emails for made in claims] == [2, 1]
    tokens = {row.id: row.token for row in shop.rows(email)}
    assert tokens[among] == tokens[last] == claims[0].token
    assert (tokens[lone], tokens[faster]) == (claims[1].token, theirs)


def look(shop: Shop, server: str = "mx:25", limit: int = 9) -> Snapshot:
    servers = [replace(shop.runtime.servers[0], label=server)]
    return read_snapshot(shop.database, shop.runtime.lanes, servers, limit=limit)


def test_a_snapshot_counts_due_emails_up_to_its_limit_and_leases_in_flight(shop: Shop) -> None:
    urgent, bulk = ("", Priority.URGENT), ("", Priority.BULK)
    for _ in range(3):
        shop.enqueue(priority=Priority.URGENT)
    shop.enqueue(priority=Priority.BULK)
    found = look(shop, limit=2)
    assert {way: due.emails for way, due in found.due.items()} == {urgent: 2, bulk: 1}
    assert (found.flight, found.lapsed) == ({}, False)

    shop.claim(priority=Priority.BULK)
    shop.claim(1, priority=Priority.URGENT)
    found = look(shop)
    assert {way: due.emails for way, due in found.due.items()} == {urgent: 2}
    one = InFlight(batches=1, emails=1)
    assert found.flight == {urgent: one, bulk: one}

    shop.later(LEASE + 1)
    found = look(shop)
    assert (found.flight, found.lapsed) == ({}, True)
    assert LEASE + 1 <= found.due[urgent].age < LEASE + 61


def test_a_snapshot_knows_the_breaker_of_its_own_server_only(shop: Shop) -> None:
    opened = insert(shop.tables.breaker).values(
        server="mx:25", state="open", cause="session", failures=1, opened_at=START,
        retry_at=shop.database.now(60), alert=False, reason="",
    )  # fmt: skip
    with shop.engine.begin() as connection:
        connection.execute(opened)
    assert look(shop).servers == {"mx:25": server_limits.OPEN}
    assert look(shop, "mx:26").servers == {"mx:26": None}
    shop.later(61)
    assert look(shop).servers == {"mx:25": server_limits.HALF_OPEN}
