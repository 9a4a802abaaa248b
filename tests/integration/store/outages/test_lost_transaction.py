"""SQLite: an email's row ends the whole transaction. What that wrote is written again without it.

A trigger does so with RAISE(ROLLBACK). No savepoint protects the others, and the statements after
it would commit one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from outbox import Status
from outbox.store.connection.endings import Ending
from outbox.store.transitions import expire, release
from outbox.store.transitions.rescue import Rescued, rescue
from outbox.store.transitions.window import finish
from outbox.worker.sweep import sweep
from tests.integration.store.purge.test_purge_run import DAY, purged, withdrawn
from tests.integration.store.transitions.lease.test_rescue import judge
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, WORKER, Shop, addresses, sent

pytestmark = pytest.mark.databases("sqlite")

SENT, SENDING, PENDING, CLAIMED = Status.SENT, Status.SENDING, Status.PENDING, Status.CLAIMED
MANY = 9


def ending_all(
    shop: Shop, condition: str, *, event: str = "UPDATE"
) -> AbstractContextManager[None]:
    return refusing(shop.engine, "outbox_email", condition, event=event, ends="ROLLBACK")


@pytest.fixture
def ids(shop: Shop) -> list[int]:
    return [shop.enqueue(address).id for address in addresses(MANY)]


class Listener:
    """Keeps what it is told of emails that ended."""

    def __init__(self) -> None:
        self.wants, self.told = frozenset({SENT}), list[int]()

    def tell(self, endings: Sequence[Ending]) -> None:
        self.told += [ending.email_id for ending in endings]


def test_an_error_that_ends_the_transaction_is_told_and_not_that_the_savepoint_is_gone(
    shop: Shop,
) -> None:
    """So does a disk that is full, of which the other error says nothing."""
    ends = refusing(shop.engine, "outbox_pause", "TRUE", event="INSERT", ends="ROLLBACK")
    with ends, pytest.raises(IntegrityError, match="illegal step"):
        shop.outbox.pause("bulk")
    assert shop.outbox.pause("bulk")


@pytest.mark.parametrize("place", [1, 4, MANY - 1])
def test_a_result_counts_as_written_only_if_it_is(shop: Shop, ids: list[int], place: int) -> None:
    token = shop.started().token
    shop.open(token, ids[0])
    shop.database.audience = listener = Listener()
    faulty = ids[place]
    with ending_all(shop, f"OLD.id = {faulty} AND NEW.status = 'pending'"):
        progress = finish(shop.database, token, [sent(ids[0])], worker=WORKER)
    assert progress.written == {ids[0]}
    assert shop.status(ids[0]) is SENT
    assert shop.count(shop.tables.attempt) == 1
    assert listener.told == [ids[0]]
    assert [shop.status(i) for i in ids[1:] if i != faulty] == [PENDING] * (MANY - 2)
    assert shop.email_row(faulty).token == token


@pytest.mark.long
def test_the_others_are_rescued_and_each_is_counted_once(
    shop: Shop, ids: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    shop.open(shop.started().token, *ids[:5])

    def rescued() -> Rescued:
        shop.later(LEASE + 1)
        return rescue(shop.database, shop.runtime.settings, random=lambda: 0.5)

    with ending_all(shop, f"OLD.id IN ({ids[2]}, {ids[7]})"):
        assert rescued() == Rescued(leases=0, emails=0, in_doubt=0)  # it notes what ran out
        assert rescued() == Rescued(leases=0, emails=7, in_doubt=4)
        assert caplog.text.count("2 emails could not be rescued") == 1
        assert judge(shop) == 0
    assert shop.status(ids[2]) is SENDING
    assert rescued() == Rescued(leases=1, emails=2, in_doubt=1)
    assert {row.crashes for row in shop.rows(shop.tables.email)} == {1}
    assert shop.count(shop.tables.attempt) == 5


def test_the_others_are_claimed(shop: Shop, ids: list[int]) -> None:
    with ending_all(shop, f"OLD.id IN ({ids[0]}, {ids[2]})"):
        assert sweep(shop.runtime, lambda _: None) == MANY - 2
    assert [shop.status(i) for i in ids] == [PENDING, CLAIMED, PENDING] + [CLAIMED] * 6
    (lease,) = {row.token for row in shop.rows(shop.tables.lease)}
    assert {shop.email_row(i).token for i in ids} == {lease, None}


def test_a_batch_full_of_them_keeps_nothing_behind_it(shop: Shop, ids: list[int]) -> None:
    with ending_all(shop, f"OLD.id <= {ids[6]}"):
        shop.claim(limit=3)
    assert [shop.status(i) for i in ids] == [PENDING] * 7 + [CLAIMED] * 2


@pytest.mark.long
def test_the_others_expire(shop: Shop) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    ids = [shop.enqueue(address, expires_at=end).id for address in addresses(300)]
    shop.later(2 * 3600)
    tried: list[str] = []
    sa.event.listen(
        shop.engine, "before_cursor_execute", lambda *given: tried.append(str(given[2]))
    )
    with ending_all(shop, "OLD.id % 2 = 0"):
        assert expire.expire(shop.database) == len(ids) // 2
        assert tried.count("BEGIN IMMEDIATE") < 2 * len(ids), "no try repeats all that passed"
        assert expire.expire(shop.database) == 0
    assert expire.expire(shop.database) == len(ids) // 2


def test_the_others_are_purged(shop: Shop) -> None:
    withdrawn(shop, MANY)
    ids = [row.id for row in shop.rows(shop.tables.email)]
    shop.later(DAY + 1)
    with ending_all(shop, f"OLD.id = {ids[2]}", event="DELETE"):
        assert purged(shop) == MANY - 1
        assert purged(shop) == 0
    assert [row.id for row in shop.rows(shop.tables.email)] == [ids[2]]
    assert [row.email_id for row in shop.rows(shop.tables.straggler)] == [ids[2]]


def test_one_that_cannot_be_suppressed_ends_its_batch(shop: Shop, ids: list[int]) -> None:
    """The crashes that are charged for it end the email."""
    token = shop.started().token

    def suppress(connection: sa.Connection) -> frozenset[int]:
        return release.suppress(connection, shop.database, token, ids)

    with ending_all(shop, f"OLD.id = {ids[2]}"), pytest.raises(IntegrityError):
        shop.database.run(suppress)
    assert {shop.status(i) for i in ids} == {CLAIMED}
    assert shop.database.run(suppress) == frozenset()


def test_an_error_that_no_email_has_alone_is_raised(shop: Shop, ids: list[int]) -> None:
    """Nobody knows without which emails the transaction would pass."""
    token = shop.started().token
    first = iter([True])
    add = "at_first", 0, lambda: next(first, False)
    sa.event.listen(shop.engine, "connect", lambda driver, _: driver.create_function(*add))
    shop.engine.dispose()
    with ending_all(shop, "at_first()"), pytest.raises(IntegrityError):
        finish(shop.database, token, [], worker=WORKER)
    assert {shop.status(i) for i in ids} == {CLAIMED}
