"""Contents: a large one is found again, and nobody ever waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, event, select
from sqlalchemy.orm import Session

from outbox import Email
from outbox.domain.delivery.status import FINISHED
from outbox.store.retention.removal import remove
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps import purged

pytestmark = pytest.mark.each_database

TERMS = "Terms. " * 20_000
OTHER = "Other terms. " * 20_000
PATIENCE = 60.0
DAY = timedelta(days=1)
SERVERS = pytest.mark.databases("postgresql", "mariadb")


@pytest.fixture
def rival() -> Iterator[ThreadPoolExecutor]:
    """A thread of a rival request's own."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def terms(shop: Shop, session: Session, *to: str, text: str = TERMS) -> Email:
    return shop.outbox.enqueue(message(*to, text=text), session=session)


def commit_terms(shop: Shop, *to: str, text: str = TERMS) -> Email:
    with shop.session() as session:
        email = terms(shop, session, *to, text=text)
        session.commit()
    return email


def two_at_once(shop: Shop, rival: ThreadPoolExecutor) -> None:
    """Write the terms in a transaction, and in another one while the first is open."""
    with shop.session() as session:
        terms(shop, session)
        rival.submit(commit_terms, shop).result(PATIENCE)
        session.commit()


def contents(shop: Shop) -> list[int]:
    return [row.content_id for row in shop.rows(shop.tables.email)]


def withdrawn(shop: Shop) -> tuple[Email, int]:
    """Return an email that is over, and its large content, which no other email has."""
    email = commit_terms(shop)
    with shop.session() as session:
        shop.outbox.cancel(id=email.id, session=session)
        session.commit()
    (content,) = shop.rows(shop.tables.content)
    return email, int(content.id)


def removing(shop: Shop, connection: Connection, email: Email) -> None:
    """Remove an email as a purge does, in a transaction that goes on."""
    soon = dict.fromkeys(FINISHED, datetime.now(UTC) + DAY)
    assert remove(connection, shop.database, [email.id], soon) == {email.id}


def test_a_large_committed_content_is_stored_once_whoever_it_goes_to(shop: Shop) -> None:
    emails = [commit_terms(shop, f"{name}@x.example") for name in "abc"]
    assert len(set(contents(shop))) == shop.count(shop.tables.content) == 1
    (content,) = shop.rows(shop.tables.content)
    for email, row in zip(emails, shop.rows(shop.tables.email), strict=True):
        assert email.size == row.size == len(row.headers) + len(content.body)
        assert f"To: {row.recipient}".encode() in row.headers


def test_small_contents_are_not_looked_for(shop: Shop) -> None:
    shop.enqueue()
    shop.enqueue()
    assert [row.sha256 for row in shop.rows(shop.tables.content)] == [None, None]


def test_the_size_from_which_contents_are_reused_is_a_setting(shops: Shops) -> None:
    shop = shops.open(OUTBOX_REUSE_SIZE=1)
    shop.enqueue("a@x.example")
    shop.enqueue("b@x.example")
    assert shop.count(shop.tables.content) == 1


@SERVERS
def test_a_content_of_an_open_transaction_is_stored_again_without_waiting(
    shop: Shop, rival: ThreadPoolExecutor
) -> None:
    two_at_once(shop, rival)
    assert len(set(contents(shop))) == 2


@SERVERS
@pytest.mark.parametrize("stored", [False, True], ids=["a new one", "a stored one"])
def test_no_enqueue_waits_for_an_open_transaction_with_a_large_content(
    shop: Shop, rival: ThreadPoolExecutor, stored: bool
) -> None:
    for text in (TERMS, OTHER) if stored else ():
        commit_terms(shop, text=text)
    with shop.session() as session:
        terms(shop, session)
        rival.submit(shop.enqueue).result(PATIENCE)
        rival.submit(shop.enqueue, key="order-1").result(PATIENCE)
        for number in range(5):
            rival.submit(commit_terms, shop, text=f"{number}{OTHER}").result(PATIENCE)
        session.commit()


@SERVERS
def test_two_open_transactions_reuse_one_committed_content(
    shop: Shop, rival: ThreadPoolExecutor
) -> None:
    commit_terms(shop)
    two_at_once(shop, rival)
    assert len(set(contents(shop))) == 1


@SERVERS
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_content_committed_since_the_snapshot_harms_no_transaction(
    shop: Shop, level: str
) -> None:
    with Session(shop.engine.execution_options(isolation_level=level)) as session:
        shop.order(session)
        session.execute(select(shop.orders)).all()
        with shop.session() as rivals:
            terms(shop, rivals)
            rivals.commit()
        terms(shop, session)
        session.commit()
    assert shop.count(shop.orders) == 1
    assert len(contents(shop)) == 2


@SERVERS
def test_a_content_that_purge_is_about_to_remove_is_not_reused_and_not_waited_for(
    shop: Shop, rival: ThreadPoolExecutor
) -> None:
    over, old = withdrawn(shop)
    kept: list[Email] = []

    def enqueue(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("DELETE"):  # it holds the content's lock
            kept.append(rival.submit(commit_terms, shop).result(PATIENCE))

    with shop.database.transaction() as connection:
        event.listen(connection, "before_cursor_execute", enqueue)
        removing(shop, connection, over)
    assert len(kept) == 4, "before its attempts, its lookup, itself and its content go"
    assert [row.id for row in shop.rows(shop.tables.email)] == [email.id for email in kept]
    assert {row.id for row in shop.rows(shop.tables.content)} == set(contents(shop)) != {old}


@SERVERS
def test_a_content_that_purge_has_just_removed_is_not_reused_and_not_waited_for(
    shop: Shop, rival: ThreadPoolExecutor
) -> None:
    over, old = withdrawn(shop)
    with shop.database.transaction() as connection:
        removing(shop, connection, over)
        kept = rival.submit(commit_terms, shop).result(PATIENCE)
    assert [row.id for row in shop.rows(shop.tables.email)] == [kept.id]
    assert [row.id for row in shop.rows(shop.tables.content)] == contents(shop) != [old]


@SERVERS
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
def test_a_content_that_an_enqueue_uses_again_is_never_left_over(shop: Shop, commits: bool) -> None:
    """Whatever becomes of the enqueue: the old email stays until that is known."""
    _, old = withdrawn(shop)
    shop.later(1)
    with shop.session() as session:
        again = terms(shop, session)
        assert purged.removed(shop) == 0
        session.commit() if commits else session.rollback()
    assert purged.removed(shop) == 1
    assert [row.id for row in shop.rows(shop.tables.email)] == [again.id] * commits
    assert [row.id for row in shop.rows(shop.tables.content)] == [old] * commits


def test_a_purge_that_dies_leaves_no_content_over(shop: Shop) -> None:
    withdrawn(shop)
    shop.later(1)

    def die(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("DELETE FROM outbox_content"):
            raise KeyboardInterrupt

    event.listen(shop.engine, "before_cursor_execute", die)
    with pytest.raises(KeyboardInterrupt):
        purged.removed(shop)
    event.remove(shop.engine, "before_cursor_execute", die)
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 1
    assert purged.removed(shop) == 1
    assert shop.count(shop.tables.content) == 0


def test_a_content_whose_first_email_was_rolled_back_is_not_found(shop: Shop) -> None:
    with shop.session() as session:
        terms(shop, session)
        session.rollback()
    commit_terms(shop)
    assert shop.count(shop.tables.content) == 1


@pytest.mark.databases("sqlite")
def test_on_sqlite_a_content_in_use_by_an_open_transaction_is_kept_from_purge(shop: Shop) -> None:
    commit_terms(shop)
    with shop.session() as session:
        terms(shop, session)
        driver = session.connection().connection.dbapi_connection
        assert driver is not None
        assert driver.in_transaction  # holds the write lock: purge waits for it
        session.commit()
    assert len(set(contents(shop))) == 1
