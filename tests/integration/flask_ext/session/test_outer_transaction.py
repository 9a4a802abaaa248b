"""A session on a connection whose transaction the app ends itself: that end decides."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.databases("sqlite", "postgresql")

JOINS = ["rollback_only", "conditional_savepoint"]
"""A close of the session leaves the connection's transaction alone."""


@pytest.fixture
def nudges(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The nudges so far; the app has a Celery app."""
    found: list[int] = []
    monkeypatch.setattr(shop.runtime, "find_celery", object)
    monkeypatch.setattr(shop.runtime.nudge, "wake", lambda *_: found.append(1))
    return found


@pytest.fixture(autouse=True)
def silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No test has a line that it does not expect: those that do clear the log."""
    yield
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


@contextmanager
def outer(shop: Shop) -> Iterator[Connection]:
    """A connection in a transaction of the app's own, which the block may end."""
    with shop.engine.connect() as connection:
        begin(connection)
        yield connection


def begin(connection: Connection) -> None:
    connection.begin()
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")


def enqueue(shop: Shop, connection: Connection, mode: Any = "rollback_only") -> Session:
    session = Session(connection, join_transaction_mode=mode)
    shop.outbox.enqueue(message(), session=session)
    return session


def emails(shop: Shop) -> int:
    return shop.count(shop.tables.email)


@pytest.mark.parametrize("mode", JOINS)
def test_a_session_that_was_closed_leaves_its_emails_to_the_outer_commit(
    shop: Shop, nudges: list[int], mode: str
) -> None:
    with outer(shop) as connection:
        enqueue(shop, connection, mode).close()
        assert nudges == []
        connection.commit()
        assert (nudges, emails(shop), shop.outbox.discarded) == ([1], 1, 0)
        begin(connection)
        connection.commit()
    assert nudges == [1]


@pytest.mark.parametrize("mode", [*JOINS, "create_savepoint"])
def test_the_sessions_commit_nudges_nobody_before_the_outer_one(
    shop: Shop, nudges: list[int], mode: str
) -> None:
    with outer(shop) as connection:
        with enqueue(shop, connection, mode) as session:
            session.commit()
            assert nudges == []
        connection.commit()
    assert (nudges, emails(shop), shop.outbox.discarded) == ([1], 1, 0)


@pytest.mark.parametrize("ending", ["commit", "close"])
def test_an_outer_rollback_nudges_nobody_and_warns_of_nothing(
    shop: Shop, nudges: list[int], ending: str
) -> None:
    with outer(shop) as connection:
        getattr(enqueue(shop, connection), ending)()
        connection.rollback()
        begin(connection)
        connection.commit()
    assert (nudges, emails(shop), shop.outbox.discarded) == ([], 0, 0)


@pytest.mark.parametrize("ending", ["commit", "close"])
def test_the_outer_transaction_may_end_before_the_session(
    shop: Shop, nudges: list[int], ending: str
) -> None:
    with outer(shop) as connection:
        session = enqueue(shop, connection)
        connection.commit()
        assert (nudges, emails(shop)) == ([1], 1)
        getattr(session, ending)()
    assert (nudges, shop.outbox.discarded) == ([1], 0)


@pytest.mark.matrix
@pytest.mark.usefixtures("young_heap")
@pytest.mark.parametrize("mode", [*JOINS, "create_savepoint"])
def test_the_outer_transaction_decides_though_the_session_was_dropped(
    shop: Shop, nudges: list[int], mode: str
) -> None:
    with outer(shop) as connection:
        enqueue(shop, connection, mode)
        gc.collect()
        assert shop.outbox.discarded == 0
        connection.commit()
    assert (nudges, emails(shop), shop.outbox.discarded) == ([1], 1, 0)


def test_a_savepoint_that_the_sessions_close_undoes_was_discarded(
    shop: Shop, nudges: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with outer(shop) as connection:
        enqueue(shop, connection, "create_savepoint").close()
        assert "1 email was discarded: the session was closed without a commit" in caplog.text
        caplog.clear()
        connection.commit()
    assert (nudges, emails(shop), shop.outbox.discarded) == ([], 0, 1)


@pytest.mark.parametrize("mode", [*JOINS, "create_savepoint"])
def test_the_sessions_rollback_is_the_end(shop: Shop, nudges: list[int], mode: str) -> None:
    with outer(shop) as connection:
        with enqueue(shop, connection, mode) as session:
            session.rollback()
        connection.commit()
    assert (nudges, emails(shop), shop.outbox.discarded) == ([], 0, 0)


def test_a_session_within_a_savepoint_of_the_app_is_left_to_the_outer_commit(
    shop: Shop, nudges: list[int]
) -> None:
    with outer(shop) as connection:
        with connection.begin_nested():
            enqueue(shop, connection, "control_fully").commit()
        assert nudges == []
        connection.commit()
    assert (nudges, emails(shop), shop.outbox.discarded) == ([1], 1, 0)


@pytest.mark.parametrize("mode", [*JOINS, "create_savepoint", "control_fully"])
def test_a_session_that_began_the_connections_transaction_ends_it(
    shop: Shop, nudges: list[int], mode: str
) -> None:
    with shop.engine.connect() as connection:
        enqueue(shop, connection, mode).commit()
        assert (nudges, emails(shop)) == ([1], 1)
    assert shop.outbox.discarded == 0


@pytest.mark.usefixtures("young_heap")
def test_an_outer_transaction_that_was_dropped_has_lost_its_emails(
    shop: Shop, nudges: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    connection = shop.engine.connect()
    begin(connection)
    enqueue(shop, connection).close()
    del connection
    gc.collect()
    assert (nudges, emails(shop), shop.outbox.discarded) == ([], 0, 1)
    caplog.clear()


def test_what_a_joined_session_withdrew_is_withdrawn_by_the_outer_commit(shop: Shop) -> None:
    shop.enqueue(tag="order-1")
    with outer(shop) as connection:
        with Session(connection) as session:
            assert shop.outbox.cancel(tag="order-1", session=session) == 1
        connection.commit()
    assert shop.statuses() == ["cancelled"]


def test_a_connection_that_serves_many_transactions_is_listened_to_once(
    shop: Shop, nudges: list[int]
) -> None:
    with shop.engine.connect() as connection:
        heard = 0
        for turn in range(3):
            begin(connection)
            enqueue(shop, connection).close()
            connection.commit()
            listeners = len(connection.dispatch.commit)
            assert turn == 0 or listeners == heard
            heard = listeners
    assert nudges == [1, 1, 1]


def test_it_does_not_hear_other_connections_of_the_engine(shop: Shop) -> None:
    before = len(shop.engine.dispatch.commit)
    with outer(shop) as connection:
        enqueue(shop, connection).close()
        connection.commit()
    assert len(shop.engine.dispatch.commit) == before


def test_a_nudge_that_fails_does_not_come_out_of_the_outer_commit(
    shop: Shop,
    nudges: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object) -> None:
        raise OSError("no more threads")

    monkeypatch.setattr(shop.runtime.nudge, "wake", broken)
    with outer(shop) as connection:
        enqueue(shop, connection).close()
        connection.commit()
    assert emails(shop) == 1
    assert "no sweep was asked for" in caplog.text
    caplog.clear()


@pytest.mark.parametrize("before", [0, 1])
def test_a_savepoint_that_a_close_undoes_was_discarded(
    shop: Shop, nudges: list[int], caplog: pytest.LogCaptureFixture, before: int
) -> None:
    """What was enqueued before the savepoint is left to the outer commit."""
    with outer(shop) as connection:
        with Session(connection) as session:
            for _ in range(before):
                shop.outbox.enqueue(message(), session=session)
            session.begin_nested()
            with session.begin_nested():
                shop.outbox.enqueue(message(), session=session)
        assert "1 email was discarded: the session was closed without a commit" in caplog.text
        caplog.clear()
        connection.commit()
    assert (len(nudges), emails(shop), shop.outbox.discarded) == (before, before, 1)


def test_a_cancel_in_a_savepoint_that_a_close_undoes_is_told(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.enqueue(tag="order-1")
    with outer(shop) as connection:
        with Session(connection) as session:
            session.begin_nested()
            assert shop.outbox.cancel(tag="order-1", session=session) == 1
        assert "1 email is not withdrawn after all" in caplog.text
        caplog.clear()
        connection.commit()
    assert shop.statuses() == ["pending"]


def test_a_rollback_round_an_open_savepoint_warns_of_nothing(shop: Shop, nudges: list[int]) -> None:
    with outer(shop) as connection:
        with Session(connection) as session:
            transaction = session.begin_nested()
            session.begin_nested()
            shop.outbox.enqueue(message(), session=session)
            transaction.rollback()
        connection.commit()
    assert (nudges, emails(shop), shop.outbox.discarded) == ([], 0, 0)
