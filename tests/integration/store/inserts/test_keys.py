"""Two transactions want one idempotency key at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning

import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.orm import Session

from outbox import Email, KeyConflict, KeyContention
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = [pytest.mark.each_database, pytest.mark.each_driver]

PATIENCE = 60.0
SERVERS = pytest.mark.databases("postgresql", "mariadb")


@pytest.fixture
def rival() -> Iterator[ThreadPoolExecutor]:
    """A thread of a rival transaction's own."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def isolated(shop: Shop, level: str) -> Session:
    return Session(shop.engine.execution_options(isolation_level=level))


def waits(future: Future[object]) -> bool:
    """Whether the rival is still waiting: as long as nobody commits, it must."""
    try:
        future.result(0.2)
    except StillRunning:
        return True
    return False


@SERVERS
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_rival_waits_for_the_key_and_gets_the_first_email_or_writes_its_own(
    shop: Shop, rival: ThreadPoolExecutor, ending: str
) -> None:
    def enqueue() -> Email:
        with shop.session() as session:
            shop.order(session, "Bob")
            email = shop.outbox.enqueue(message(), session=session, key="order-1")
            session.execute(select(shop.orders)).all()
            session.commit()
        return email

    with shop.session() as session:
        shop.order(session, "Ada")
        first = shop.outbox.enqueue(message(), session=session, key="order-1")
        racing = rival.submit(enqueue)
        assert waits(racing)  # type: ignore[arg-type]
        getattr(session, ending)()
    second = racing.result(PATIENCE)

    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 1
    assert second.created is (ending == "rollback")
    assert (second.id == first.id) is (ending == "commit")
    assert shop.count(shop.orders) == (2 if ending == "commit" else 1)


@SERVERS
def test_a_rival_with_other_content_gets_a_conflict_and_its_transaction_stays_usable(
    shop: Shop, rival: ThreadPoolExecutor
) -> None:
    def enqueue() -> None:
        with shop.session() as session:
            shop.order(session, "Bob")
            with pytest.raises(KeyConflict):
                shop.outbox.enqueue(message(text="Other."), session=session, key="order-1")
            shop.outbox.enqueue(message(), session=session, key="order-2")
            session.commit()

    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session, key="order-1")
        racing = rival.submit(enqueue)
        session.commit()
    racing.result(PATIENCE)

    assert [row.key for row in shop.rows(shop.tables.email)] == ["order-1", "order-2"]
    assert shop.count(shop.orders) == 1


@SERVERS
def test_an_enqueue_waits_for_no_transaction_with_another_key(
    shop: Shop, rival: ThreadPoolExecutor
) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session, key="order-1")
        for key in ("order-0", "order-2", "a", "z"):
            rival.submit(shop.enqueue, key=key).result(PATIENCE)
        rival.submit(shop.enqueue).result(PATIENCE)
        shop.outbox.enqueue(message(), session=session, key="order-3")
        session.commit()
    assert shop.count(shop.tables.email) == 7


@SERVERS
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_key_taken_since_the_snapshot_gives_the_first_email_or_contention(
    shop: Shop, level: str
) -> None:
    with isolated(shop, level) as session:
        session.execute(select(shop.orders)).all()  # the snapshot
        first = shop.enqueue(key="order-1") if level != "SERIALIZABLE" else None
        if first is None:
            first = shop.enqueue(key="order-1")
        try:
            second = shop.outbox.enqueue(message(), session=session, key="order-1")
        except KeyContention:
            assert level != "READ COMMITTED"
            session.execute(select(shop.orders)).all()  # the transaction is usable
        else:
            assert (second.id, second.created) == (first.id, False)
        session.rollback()
    assert shop.count(shop.tables.email) == 1


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@SERVERS
def test_a_keyed_email_commits_under_every_isolation_level(shop: Shop, level: str) -> None:
    for _ in range(2):
        with isolated(shop, level) as session:
            shop.outbox.enqueue(message(), session=session, key="order-1")
            session.commit()
    assert shop.count(shop.tables.email) == 1


@SERVERS
def test_two_that_want_each_others_keys_end_without_harm(
    shop: Shop, rival: ThreadPoolExecutor
) -> None:
    """One of them may be told to retry; then nothing of its business is half written."""

    def both(session: Session, name: str, key: str) -> str:
        try:
            shop.outbox.enqueue(message(), session=session, key=key)
        except KeyContention:
            session.rollback()
            return f"{name} was told to retry"
        session.commit()
        return f"{name} committed"

    with shop.session() as ours, shop.session() as theirs:
        shop.order(ours, "Ada")
        shop.order(theirs, "Bob")
        shop.outbox.enqueue(message(), session=ours, key="a")
        shop.outbox.enqueue(message(), session=theirs, key="b")
        racing = rival.submit(both, theirs, "Bob", "a")
        answers = {both(ours, "Ada", "b"), racing.result(PATIENCE)}

    committed = {answer.split()[0] for answer in answers if answer.endswith("committed")}
    assert committed
    assert {row.customer for row in shop.rows(shop.orders)} == committed
    assert sorted(row.key for row in shop.rows(shop.tables.email)) == ["a", "b"]


@pytest.mark.databases("sqlite")
def test_a_rival_on_sqlite_is_told_of_contention_and_stays_usable(shops: Shops) -> None:
    shop = shops.open()
    with shop.session() as ours, shop.session() as theirs:
        theirs.execute(text("PRAGMA busy_timeout = 1"))
        shop.outbox.enqueue(message(), session=ours, key="order-1")
        with pytest.raises(KeyContention):
            shop.outbox.enqueue(message(), session=theirs, key="order-1")
        ours.commit()
        again = shop.outbox.enqueue(message(), session=theirs, key="order-1")
        shop.order(theirs, "Bob")
        theirs.commit()
    assert not again.created
    assert shop.count(shop.orders) == shop.count(shop.tables.email) == 1


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("shared", [None, True, False], ids=["one", "shared", "different"])
def test_who_waits_for_a_key_longer_than_the_server_allows_is_told_of_contention(
    shops: Shops, shared: bool | None
) -> None:
    shop = shops.open_on(create_engine(shops.url))

    def want(session: Session) -> object:
        if shared is None:
            return shop.outbox.enqueue(message(), session=session, key="order-1")
        what = (newsletter(), addresses(1)) if shared else ([message()], None)
        return shop.outbox.enqueue_many(*what, session=session, key=lambda _: "order-1")

    with shop.session() as holder, shop.session() as session:
        shop.outbox.enqueue(message(), session=holder, key="order-1")
        session.execute(text("SET LOCAL lock_timeout = '10ms'"))
        shop.order(session, "Bob")
        with pytest.raises(KeyContention):
            want(session)
        holder.rollback()
        want(session)  # the transaction is usable
        session.commit()
    assert shop.count(shop.orders) == shop.count(shop.tables.email) == 1


def test_many_threads_that_want_one_key_make_one_email(shop: Shop) -> None:
    def enqueue(number: int) -> int:
        while True:
            with shop.session() as session:
                shop.order(session, f"customer {number}")
                try:
                    email = shop.outbox.enqueue(message(), session=session, key="order-1")
                except KeyContention:
                    continue
                session.commit()
                return email.id

    with ThreadPoolExecutor(4) as pool:
        ids = set(pool.map(enqueue, range(8)))
    assert ids == {shop.rows(shop.tables.email)[0].id}
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 1
    assert shop.count(shop.orders) == 8


@pytest.mark.databases("mariadb")
def test_a_transaction_that_a_deadlock_ended_cannot_seem_to_commit(
    shop: Shop, rival: ThreadPoolExecutor
) -> None:
    """MariaDB rolls back all of it, the business row too: a commit must not go through."""

    def want(session: Session, key: str) -> bool:
        try:
            shop.outbox.enqueue(message(), session=session, key=key)
        except KeyContention:
            with pytest.raises(PendingRollbackError):
                session.commit()
            return False
        session.commit()
        return True

    with shop.session() as ours, shop.session() as theirs:
        shop.order(ours, "Ada")
        shop.order(theirs, "Bob")
        shop.outbox.enqueue(message(), session=ours, key="a")
        shop.outbox.enqueue(message(), session=theirs, key="b")
        racing = rival.submit(want, theirs, "a")
        assert sorted([want(ours, "b"), racing.result(PATIENCE)]) == [False, True]
    assert shop.count(shop.orders) == 1


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("words", ["Thank you.", "Other."])
def test_a_key_taken_since_a_strict_snapshot_gives_contention_and_no_order_is_lost_unseen(
    shops: Shops, words: str
) -> None:
    """From 11.6.2 on MariaDB rolls back what reads a row that has changed since its snapshot."""
    strict = {"init_command": "SET SESSION innodb_snapshot_isolation = ON"}
    shop = shops.open_on(create_engine(shops.url, connect_args=strict))
    with shop.session() as session:
        shop.order(session, "Ada")
        session.execute(select(shop.orders)).all()  # the snapshot
        shop.enqueue(key="order-1")
        with pytest.raises(KeyContention):
            shop.outbox.enqueue(message(text=words), session=session, key="order-1")
        with pytest.raises(PendingRollbackError):
            shop.order(session, "Bob")
        with pytest.raises(PendingRollbackError):
            session.commit()
        session.rollback()
        shop.order(session, "Cleo")  # the session is usable again
        session.commit()
    assert [row.customer for row in shop.rows(shop.orders)] == ["Cleo"]
    assert shop.count(shop.tables.email) == 1
