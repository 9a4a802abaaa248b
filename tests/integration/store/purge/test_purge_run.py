"""One purge at a time, each goes on where the last one ended, and every email's time comes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from outbox import Status
from outbox.domain.config.retention import Retention
from outbox.store.connection.database import Database
from outbox.store.retention import mark, walk
from outbox.store.retention import purge as purging
from outbox.store.retention.mark import LEASE, PurgeUnderWay, take
from outbox.store.retention.purge import purge as chunks_of
from outbox.store.transitions import resolve
from outbox.store.transitions.cancel import withdraw
from tests.integration.store.locks import PATIENCE, no_waiting
from tests.integration.store.purge.test_purge import finished, in_status
from tests.support.shop.shop import START, Shop, Shops, addresses, message, newsletter, sent
from tests.support.shop.steps.purged import removed
from tests.support.shop.watching.impatient import impatient_url

pytestmark = pytest.mark.each_database

DAY = 86_400.0
SERVERS = pytest.mark.databases("postgresql", "mariadb")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two emails in one transaction."""
    monkeypatch.setattr(walk, "CHUNK", 2)


@pytest.fixture
def impatient(database_url: str, shops: Shops) -> Iterator[Shop]:
    """A shop for which a wait for a lock is an error."""
    opened = Shops(url=impatient_url(database_url), has_tables=True, shared=shops.shared.apart())
    yield opened.open()
    opened.close()


def purged(shop: Shop, older_than: float = DAY) -> int:
    return removed(shop, older_than)


def purge(database: Database, *, older_than: float) -> Generator[int, None, None]:
    """Yield how many emails each transaction removed."""
    with closing(chunks_of(database, Retention.of_all(older_than))) as chunks:
        for chunk in chunks:
            yield chunk.emails


def withdrawn(shop: Shop, count: int) -> None:
    """Leave so many emails behind that are over."""
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(count), session=session, tag="news")
        session.commit()
    with shop.session() as session:
        shop.outbox.cancel(tag="news", session=session)
        session.commit()


def stragglers(shop: Shop) -> list[int]:
    return [row.email_id for row in shop.rows(shop.tables.straggler)]


@pytest.mark.usefixtures("small")
def test_a_purge_that_was_closed_is_gone_on_with(shop: Shop) -> None:
    withdrawn(shop, 7)
    shop.later(DAY + 1)
    with closing(purge(shop.database, older_than=DAY)) as chunks:
        assert next(chunks) == 2
    assert shop.count(shop.tables.email) == 5
    assert purged(shop) == 5


def test_there_is_one_purge_at_a_time(shop: Shop) -> None:
    withdrawn(shop, 1)
    shop.later(DAY + 1)
    with closing(purge(shop.database, older_than=DAY)) as chunks:
        assert next(chunks) == 1
        with pytest.raises(PurgeUnderWay):
            purged(shop)
    assert purged(shop) == 0


@pytest.mark.usefixtures("small")
def test_one_that_died_keeps_the_others_away_for_its_lease_and_then_says_that_it_is_lost(
    shop: Shop,
) -> None:
    withdrawn(shop, 7)
    shop.later(DAY + 1)
    asleep = purge(shop.database, older_than=DAY)
    assert next(asleep) == 2
    shop.later(LEASE - 5)
    with pytest.raises(PurgeUnderWay):
        purged(shop)
    shop.later(10)
    with closing(purge(shop.database, older_than=DAY)) as chunks:
        assert next(chunks) == 2
        with pytest.raises(PurgeUnderWay):
            next(asleep)
        assert sum(chunks) == 3


@pytest.mark.usefixtures("small")
def test_a_purge_keeps_its_lease_while_it_removes_something(shop: Shop) -> None:
    withdrawn(shop, 7)
    shop.later(DAY + 1)
    with closing(purge(shop.database, older_than=DAY)) as chunks:
        for _ in range(3):
            assert next(filter(None, chunks)) == 2
            shop.later(LEASE - 5)
            with pytest.raises(PurgeUnderWay):
                purged(shop)


def test_a_clock_that_was_ahead_keeps_no_purge_away(shop: Shop) -> None:
    withdrawn(shop, 1)
    shop.later(30 * DAY)
    ahead = purge(shop.database, older_than=60 * DAY)
    assert next(ahead) == 0
    shop.later(-5 * DAY)
    assert purged(shop) == 1
    ahead.close()


@SERVERS
def test_no_purge_waits_for_one_whose_host_has_vanished(impatient: Shop) -> None:
    """Its transaction stays open, with the mark and its emails locked, until TCP gives it up."""
    withdrawn(impatient, 1)
    impatient.later(DAY + 1)
    purged(impatient, 30 * DAY)
    table = impatient.tables.purge
    with impatient.database.transaction() as vanished:
        vanished.execute(select(table).with_for_update())
        vanished.execute(update(table).values(walked=1))
        with pytest.raises(PurgeUnderWay):
            purged(impatient)
        vanished.rollback()
    assert purged(impatient) == 1


@SERVERS
@pytest.mark.usefixtures("small")
def test_one_that_finds_the_mark_locked_for_a_moment_goes_on(impatient: Shop) -> None:
    """Another purge that asks for the lease has it locked."""
    withdrawn(impatient, 7)
    impatient.later(DAY + 1)
    chunks = purge(impatient.database, older_than=DAY)
    assert next(chunks) == 2
    with impatient.database.transaction() as other:
        other.execute(select(impatient.tables.purge).with_for_update())
        assert [next(chunks) for _ in range(4)] == [0] * 4
        other.rollback()
    assert sum(chunks) == 5


@SERVERS
@pytest.mark.usefixtures("small")
def test_one_that_finds_the_mark_locked_past_its_lease_gives_up(impatient: Shop) -> None:
    withdrawn(impatient, 7)
    impatient.later(DAY + 1)
    chunks = purge(impatient.database, older_than=DAY)
    assert next(chunks) == 2
    impatient.later(LEASE + 1)
    with impatient.database.transaction() as other:
        other.execute(select(impatient.tables.purge).with_for_update())
        with pytest.raises(PurgeUnderWay):
            next(chunks)
        other.rollback()


@pytest.mark.long
@SERVERS
@pytest.mark.usefixtures("small")
def test_one_that_ends_does_not_wait_for_a_host_that_vanished_with_the_mark(shop: Shop) -> None:
    """It asked for the lease. The lease of the purge that ends runs out, and the next goes on."""
    withdrawn(shop, 7)
    shop.later(DAY + 1)
    chunks = purge(shop.database, older_than=DAY)
    assert next(chunks) == 2
    with shop.database.transaction() as vanished, no_waiting(shop), ThreadPoolExecutor(1) as pool:
        take(vanished, shop.database, uuid4())
        try:
            pool.submit(chunks.close).result(timeout=PATIENCE)
        finally:
            vanished.rollback()
    with pytest.raises(PurgeUnderWay):
        purged(shop)
    shop.later(LEASE + 1)
    assert purged(shop) == 5


@SERVERS
@pytest.mark.usefixtures("small")
def test_one_that_ends_while_another_asks_for_the_lease_gives_it_up(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdrawn(shop, 7)
    shop.later(DAY + 1)
    chunks = purge(shop.database, older_than=DAY)
    assert next(chunks) == 2
    with shop.database.transaction() as other:
        take(other, shop.database, uuid4())
        tries = list[bool]()

        def tried(*args: Any, **options: Any) -> bool:
            tries.append(mark.release(*args, **options))
            other.rollback()
            return tries[-1]

        monkeypatch.setattr(purging, "release", tried)
        chunks.close()
    assert tries == [False, True]
    assert purged(shop) > 0


def test_an_email_that_finishes_after_the_walk_has_passed_it_is_removed_in_its_time(
    shop: Shop,
) -> None:
    late, other = shop.enqueue().id, in_status(shop, Status.UNKNOWN)
    shop.later(10 * DAY)
    assert purged(shop) == 0
    assert stragglers(shop) == [late, other]
    made = shop.sending(late)
    shop.record(made.token, [sent(late)])
    shop.later(DAY - 10)
    assert purged(shop) == 0
    shop.later(20)
    assert purged(shop) == 1
    assert stragglers(shop) == [other]
    shop.database.run(lambda c: resolve.resolve(c, shop.database, [other], Status.SENT))
    shop.later(DAY + 10)
    assert purged(shop) == 1
    assert (shop.count(shop.tables.email), stragglers(shop)) == (0, [])


def test_another_retention_holds_for_what_the_walk_has_passed(shop: Shop) -> None:
    waiting = shop.enqueue(send_at=START + timedelta(days=3650)).id
    shop.later(10 * DAY)
    assert purged(shop) == 0
    finished(shop, key="passed")
    shop.database.run(lambda c: withdraw(c, shop.database, id=waiting))
    shop.later(5 * DAY)
    assert purged(shop, 6 * DAY) == 0
    assert purged(shop, 4 * DAY) == 2
    assert (shop.count(shop.tables.email), stragglers(shop)) == (0, [])


@pytest.mark.long
def test_ids_need_not_be_in_the_order_of_creation(shop: Shop) -> None:
    """Those of long transactions are not, nor after a clock was set back."""
    ids = [finished(shop) for _ in range(4)]
    email = shop.tables.email
    early = shop.database.now(-2 * DAY)
    with shop.engine.begin() as connection:
        for place in (1, 3):
            moved = update(email).where(email.c.id == ids[place])
            connection.execute(moved.values(created_at=early, finished_at=early))
    assert purged(shop) == 2
    assert [row.id for row in shop.rows(email)] == [ids[0], ids[2]]
    shop.later(DAY + 10)
    assert purged(shop) == 2


def test_a_mark_that_was_removed_by_hand_begins_anew(shop: Shop) -> None:
    kept = in_status(shop, Status.UNKNOWN)
    shop.later(10 * DAY)
    assert purged(shop) == 0
    with shop.engine.begin() as connection:
        connection.execute(shop.tables.purge.delete())
    assert purged(shop) == 0
    assert stragglers(shop) == [kept]


@pytest.mark.long
@SERVERS
def test_an_email_that_became_visible_behind_the_mark_is_removed_in_its_time(shop: Shop) -> None:
    """Its transaction was open while a purge passed its id."""
    with shop.session() as session:
        hidden = shop.outbox.enqueue(message(), session=session)
        finished(shop)
        shop.later(10 * DAY)
        assert purged(shop) == 1
        session.commit()
    made = shop.sending(hidden.id)
    shop.record(made.token, [sent(hidden.id)])
    shop.later(DAY + 10)
    assert purged(shop) == 1
    assert shop.count(shop.tables.email) == 0
