"""Enqueue: an email exists if and only if the transaction that wrote it committed."""

from __future__ import annotations

import socket

import pytest
from sqlalchemy import Connection, event, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from outbox import ConfigurationError, Email, KeyConflict, Status
from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.each_database


@pytest.mark.each_driver
def test_an_email_commits_with_its_business_row(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session)
        email = shop.outbox.enqueue(message(), session=session)
        session.commit()
    row = shop.email_row(email.id)
    assert shop.count(shop.orders) == 1
    assert (row.status, row.message_id) == (Status.PENDING, email.message_id)


@pytest.mark.each_driver
def test_an_email_vanishes_with_its_transactions_rollback(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session)
        shop.outbox.enqueue(message("a@x.example", "b@x.example"), session=session)
        session.rollback()
    assert shop.count(shop.tables.email) == shop.count(shop.orders) == 0
    assert shop.count(shop.tables.content) == shop.count(shop.tables.recipient) == 0


def test_enqueue_commits_nothing_by_itself(shop: Shop) -> None:
    commits: list[Connection] = []
    event.listen(shop.engine, "commit", commits.append)
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        shop.outbox.enqueue(message(), session=session, key="order-1")
        shop.outbox.enqueue_many([message(), message()], session=session)
        assert commits == []
        assert shop.count(shop.tables.email) == 0
    assert shop.count(shop.tables.email) == 0


@pytest.mark.each_driver
@pytest.mark.parametrize("key", [None, "order-1"])
def test_an_email_vanishes_with_its_savepoint_and_the_rest_commits(
    shop: Shop, key: str | None
) -> None:
    with shop.session() as session:
        shop.order(session)
        savepoint = session.begin_nested()
        shop.outbox.enqueue(message(), session=session, key=key)
        savepoint.rollback()
        kept = shop.outbox.enqueue(message(), session=session, key="order-2")
        session.commit()
    assert shop.count(shop.orders) == 1
    assert [row.id for row in shop.rows(shop.tables.email)] == [kept.id]


def test_a_keyed_email_as_the_first_statement_of_a_session_vanishes_with_its_rollback(
    shop: Shop,
) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session, key="order-1")
        session.rollback()
    assert shop.count(shop.tables.email) == 0


def test_a_newsletter_as_the_first_statement_of_a_session_vanishes_with_its_rollback(
    shop: Shop,
) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many([message()], session=session)
        session.rollback()
    assert shop.count(shop.tables.email) == 0


@pytest.mark.each_driver
def test_a_failed_business_row_takes_its_email_along(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session, "Ada")
        session.commit()
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session, key="order-1")
        with pytest.raises(IntegrityError):
            shop.order(session, "Ada")
        session.rollback()
    assert shop.count(shop.tables.email) == 0


def test_the_same_request_again_returns_the_first_email(shop: Shop) -> None:
    first = shop.enqueue(key="order-1")
    again = shop.enqueue(key="order-1")
    assert (first.created, again.created) == (True, False)
    assert (again.id, again.message_id) == (first.id, first.message_id)
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 1


def test_the_same_email_with_a_new_message_id_and_date_is_the_same_email(shop: Shop) -> None:
    def request(number: int) -> Email:
        mail = message(Date=f"Thu, 01 Jan 2026 12:00:0{number} +0000")
        mail["Message-ID"] = f"<{number}@shop.example>"
        with shop.session() as session:
            email = shop.outbox.enqueue(mail, session=session, key="order-1")
            session.commit()
        return email

    assert request(1).id == request(2).id
    assert shop.rows(shop.tables.email)[0].message_id == "<1@shop.example>"


def test_the_same_key_twice_in_one_transaction_is_one_email(shop: Shop) -> None:
    with shop.session() as session:
        first = shop.outbox.enqueue(message(), session=session, key="order-1")
        again = shop.outbox.enqueue(message(), session=session, key="order-1")
        session.commit()
    assert (again.id, again.created) == (first.id, False)
    assert shop.count(shop.tables.email) == 1


@pytest.mark.matrix
@pytest.mark.parametrize(
    "other",
    [
        message(text="Something else."),
        message(subject="Order 2"),
        message("b@customers.example"),
        message(**{"X-Shop": "2"}),
    ],
)
def test_the_same_key_with_other_content_is_a_conflict_that_leaves_the_transaction_usable(
    shop: Shop, other: object
) -> None:
    first = shop.enqueue(key="order-1")
    with shop.session() as session:
        shop.order(session)
        with pytest.raises(KeyConflict) as caught:
            shop.outbox.enqueue(other, session=session, key="order-1")  # type: ignore[arg-type]
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    assert str(caught.value) == "an email with other content has the key 'order-1'"
    assert shop.count(shop.orders) == 1
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 2
    assert shop.status(first.id) is Status.PENDING


def test_keys_are_told_apart_by_case_and_accent(shop: Shop) -> None:
    keys = ["order", "Order", "\u00f6rder", "o\u0308rder", "order\u200b"]
    assert len({shop.enqueue(key=key).id for key in keys}) == len(keys)


def test_a_cancelled_email_keeps_its_key(shop: Shop) -> None:
    email = shop.enqueue(key="order-1")
    with shop.session() as session:
        assert shop.outbox.cancel(key="order-1", session=session) == 1
        session.commit()
    again = shop.enqueue(key="order-1")
    assert (again.id, again.created, again.status) == (email.id, False, Status.CANCELLED)


def test_an_error_of_the_database_shows_no_address(shop: Shop) -> None:
    with shop.engine.begin() as connection:
        for table in (shop.tables.recipient, shop.tables.attempt, shop.tables.email):
            table.drop(connection)
    address = "secret@customers.example"
    with shop.session() as session, pytest.raises(ConfigurationError) as caught:
        shop.outbox.enqueue(message(address), session=session, key="order-1")
    assert isinstance(caught.value.__cause__, DBAPIError)
    assert "secret@" not in f"{caught.value} {caught.value.__cause__}"
    with shop.session() as session, pytest.raises(ConfigurationError) as caught:
        shop.outbox.enqueue_many([message(address)], session=session)
    assert "secret@" not in f"{caught.value} {caught.value.__cause__}"


def test_the_email_that_is_returned_can_be_read_in_the_same_transaction(shop: Shop) -> None:
    with shop.session() as session:
        email = shop.outbox.enqueue(message(), session=session, tag="t", priority="urgent")
        found = session.execute(
            select(shop.tables.email).where(shop.tables.email.c.id == email.id)
        ).one()
        assert (found.tag, found.priority, found.size) == ("t", 0, email.size)


def test_the_database_of_these_tests_refuses_a_step_off_the_lifecycles_table(shop: Shop) -> None:
    email = shop.enqueue()
    table = shop.tables.email
    illegal = table.update().values(
        status=Status.FAILED, due_at=None, finished_at=shop.database.now()
    )
    with shop.engine.begin() as connection, pytest.raises(DBAPIError, match="illegal step"):
        connection.execute(illegal)
    assert shop.status(email.id) is Status.PENDING


@pytest.mark.databases("sqlite")
def test_enqueue_and_commit_open_no_connection_to_anywhere(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        pytest.fail("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        shop.outbox.enqueue_many([message()], session=session)
        session.commit()
