"""Many emails in one transaction: all of them or none, one content, and little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage

import pytest

from outbox import InvalidMessage, KeyConflict, Priority
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = pytest.mark.each_database

MEBI = 1024 * 1024


@pytest.mark.long
@pytest.mark.each_driver
def test_a_newsletter_stores_its_content_once(shop: Shop) -> None:
    with shop.session() as session:
        added = shop.outbox.enqueue_many(newsletter(), addresses(2500), session=session, tag="n")
        session.commit()
    rows = shop.rows(shop.tables.email)
    (content,) = shop.rows(shop.tables.content)
    assert added == len(rows) == 2500
    assert {row.content_id for row in rows} == {content.id}
    assert len({row.message_id for row in rows}) == 2500
    assert {(row.recipients, row.priority, row.tag) for row in rows} == {(1, Priority.BULK, "n")}
    for row in rows[:3]:
        data = row.headers + content.body
        assert f"To: {row.recipient}\r\n".encode() in row.headers
        assert f"Message-ID: {row.message_id}\r\n".encode() in row.headers
        assert row.size == len(data)
        assert b"To: " not in content.body
        assert b"Message-ID" not in content.body


def test_a_newsletter_vanishes_with_its_rollback(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session)
        shop.outbox.enqueue_many(newsletter(), addresses(10), session=session)
        session.rollback()
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 0


@pytest.mark.long
@pytest.mark.each_driver
@pytest.mark.usefixtures("small_chunks")
def test_an_iterable_of_messages_is_an_email_each(shop: Shop) -> None:
    with shop.session() as session:
        emails = (message(address, subject=address) for address in addresses(120))
        assert shop.outbox.enqueue_many(emails, session=session, priority="normal") == 120
        session.commit()
    rows = shop.rows(shop.tables.email)
    contents = {row.id: row.body for row in shop.rows(shop.tables.content)}
    assert [row.recipient for row in rows] == addresses(120)
    assert all(f"Subject: {row.recipient}".encode() in contents[row.content_id] for row in rows)


@pytest.mark.each_driver
def test_messages_with_several_recipients_keep_a_row_for_each(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(
            [message(), message("a@x.example", "b@x.example")], session=session
        )
        session.commit()
    first, second = shop.rows(shop.tables.email)
    assert shop.recipients(first.id) == {}
    assert shop.recipients(second.id) == {"a@x.example": "pending", "b@x.example": "pending"}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("bad", ["nobody", "a@x.example\r\nBcc: b@x.example", "a\x00@x.example"])
def test_a_bad_recipient_in_the_middle_stores_nothing_and_leaves_the_transaction_usable(
    shop: Shop, bad: str
) -> None:
    with shop.session() as session:
        shop.order(session)
        with pytest.raises(InvalidMessage) as caught:
            shop.outbox.enqueue_many(
                newsletter(), [*addresses(150), bad, *addresses(3)], session=session
            )
        assert shop.outbox.enqueue(message(), session=session).created
        session.commit()
    assert caught.value.field == "recipients"
    assert bad not in str(caught.value)
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 1
    assert shop.count(shop.orders) == 1


@pytest.mark.long
@pytest.mark.each_driver
@pytest.mark.usefixtures("small_chunks")
def test_a_bad_message_in_the_middle_stores_nothing_and_leaves_the_transaction_usable(
    shop: Shop,
) -> None:
    def emails() -> Iterator[EmailMessage]:
        for address in addresses(110):
            yield message(address)
        yield newsletter()  # for nobody

    with shop.session() as session:
        shop.order(session)
        with pytest.raises(InvalidMessage):
            shop.outbox.enqueue_many(emails(), session=session)
        session.commit()
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 0
    assert shop.count(shop.orders) == 1


@pytest.mark.usefixtures("small_chunks")
def test_an_error_of_the_users_own_iterable_stores_nothing(shop: Shop) -> None:
    def recipients() -> Iterator[str]:
        yield from addresses(101)
        raise LookupError("the query of the users failed")

    with shop.session() as session:
        with pytest.raises(LookupError):
            shop.outbox.enqueue_many(newsletter(), recipients(), session=session)
        session.commit()
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 0


def test_a_single_message_without_recipients_is_refused(shop: Shop) -> None:
    with shop.session() as session, pytest.raises(InvalidMessage):
        shop.outbox.enqueue_many(newsletter(), session=session)


@pytest.mark.usefixtures("small_chunks")
def test_a_repeated_run_with_keys_adds_none_and_stores_no_second_content(shop: Shop) -> None:
    def run(readers: list[str]) -> int:
        with shop.session() as session:
            added = shop.outbox.enqueue_many(
                newsletter(), readers, session=session, key=lambda address: f"news/{address}"
            )
            session.commit()
        return added

    readers = addresses(150)
    assert run(list(reversed(readers))) == 150
    assert run(readers) == 0
    assert shop.count(shop.tables.content) == 1
    assert run([*readers, "new@readers.example"]) == 1
    assert shop.count(shop.tables.email) == 151


@pytest.mark.usefixtures("small_chunks")
def test_the_same_reader_twice_in_one_run_gets_one_email(shop: Shop) -> None:
    with shop.session() as session:
        readers = [*addresses(120), *addresses(120)]
        added = shop.outbox.enqueue_many(newsletter(), readers, session=session, key=str)
        session.commit()
    assert added == shop.count(shop.tables.email) == 120


def test_a_run_without_readers_stores_nothing(shop: Shop) -> None:
    with shop.session() as session:
        assert shop.outbox.enqueue_many(newsletter(), [], session=session) == 0
        session.commit()
    assert shop.count(shop.tables.content) == 0


def test_a_key_that_another_content_has_is_a_conflict_and_stores_nothing(shop: Shop) -> None:
    shop.enqueue(key="r00003@readers.example")
    with shop.session() as session:
        shop.order(session)
        with pytest.raises(KeyConflict) as caught:
            shop.outbox.enqueue_many(newsletter(), addresses(5), session=session, key=str)
        session.commit()
    assert (caught.value.index, caught.value.key) == (3, "r00003@readers.example")
    assert str(caught.value) == (
        "recipients[3]: an email with other content has this key (see the error's key)"
    )
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 1
    assert shop.count(shop.orders) == 1


@pytest.mark.long
def test_keyed_messages_run_again_add_none(shop: Shop) -> None:
    def run() -> int:
        with shop.session() as session:
            added = shop.outbox.enqueue_many(
                [message(address) for address in addresses(30)],
                session=session,
                key=lambda mail: str(mail["To"]),
            )
            session.commit()
        return added

    assert [run(), run()] == [30, 0]


@pytest.mark.matrix
@pytest.mark.parametrize("key", ["", " x", "x\n", "x" * 256, 5])
def test_a_bad_key_of_one_reader_stores_nothing(shop: Shop, key: object) -> None:
    with shop.session() as session:
        shop.order(session)
        with pytest.raises(InvalidMessage) as caught:
            shop.outbox.enqueue_many(
                newsletter(),
                addresses(3),
                session=session,
                key=lambda address: key if address.startswith("r00002") else address,  # type: ignore[arg-type,return-value]
            )
        session.commit()
    assert caught.value.field == "key"
    assert shop.count(shop.tables.email) == 0


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "different"])
def test_a_key_without_its_id_is_refused_and_an_address_may_have_that_word(
    shop: Shop, shared: bool
) -> None:
    readers = ["ada@x.example", "None@x.example"]
    what = (newsletter(), readers) if shared else (map(message, readers), None)

    def run(number: int | None) -> int:
        keys = (f"news-{number}-{reader}" for reader in readers)
        with shop.session() as session:
            added = shop.outbox.enqueue_many(*what, session=session, key=lambda _: next(keys))
            session.commit()
        return added

    with pytest.raises(InvalidMessage, match=r"\[0\]: key: has None in the place of an id"):
        run(None)
    what = (newsletter(), readers) if shared else (map(message, readers), None)
    assert run(7) == shop.count(shop.tables.email) == 2


@pytest.mark.long
def test_two_runs_with_the_same_keys_in_other_orders_never_deadlock(shop: Shop) -> None:
    def run(readers: list[str]) -> int:
        with shop.session() as session:
            added = shop.outbox.enqueue_many(
                [message(address) for address in readers],
                session=session,
                key=lambda mail: str(mail["To"]),
            )
            session.commit()
        return added

    readers = addresses(40)
    with ThreadPoolExecutor(2) as pool:
        added = list(pool.map(run, [readers, list(reversed(readers))]))
    assert sum(added) == shop.count(shop.tables.email) == 40


def peak(shop: Shop, count: int) -> int:
    """Return the bytes that enqueueing so many emails needs at most."""
    with shop.session() as session:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        readers = (f"r{number}@readers.example" for number in range(count))
        assert shop.outbox.enqueue_many(newsletter(), readers, session=session) == count
        highest = tracemalloc.get_traced_memory()[1] - before
        session.rollback()
    return highest


@pytest.mark.over_and_over
@pytest.mark.long
def test_memory_stays_flat_however_many_readers(shop: Shop) -> None:
    peak(shop, 1000)  # fills the caches
    tracemalloc.start()
    try:
        few, most = peak(shop, 2000), peak(shop, 6000)
    finally:
        tracemalloc.stop()
    assert most < few + MEBI
