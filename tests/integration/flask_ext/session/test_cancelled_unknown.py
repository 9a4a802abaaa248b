"""A `cancel` of an email in doubt is told behind the commit that decides, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox import ConfigurationError, Status, email_unknown
from tests.integration.flask_ext.session.test_outer_transaction import JOINS, begin
from tests.integration.flask_ext.session.test_outer_undone import fail_by_hand
from tests.integration.hearing import Heard, hearing
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

ENDS = ["commit", "close"]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What the signals tell."""
    with hearing() as found:
        yield found


@pytest.fixture
def doubtful(shop: Shop, heard: Heard) -> int:
    """An email in doubt."""
    email_id = shop.enqueue().id
    shop.lose(email_id)
    assert heard.new() == []
    return email_id


def cancelled(shop: Shop, connection: sa.Connection, email_id: int, mode: Any) -> Session:
    session = Session(connection, join_transaction_mode=mode)
    assert shop.outbox.cancel(id=email_id, session=session) == 0
    return session


def look(shop: Shop) -> None:
    """End a request, or whatever else has an app context."""
    with shop.app.app_context():
        pass


@pytest.mark.matrix
@pytest.mark.parametrize("mode", [*JOINS, "create_savepoint"])
@pytest.mark.parametrize("end", ENDS)
def test_the_commit_of_an_outer_transaction_decides(
    shop: Shop, doubtful: int, heard: Heard, mode: str, end: str
) -> None:
    is_kept = end == "commit" or mode != "create_savepoint"
    with shop.engine.connect() as connection:
        begin(connection)
        getattr(cancelled(shop, connection, doubtful, mode), end)()
        look(shop)
        assert heard.new() == []
        connection.commit()
    look(shop)
    assert heard.new() == [(Status.UNKNOWN, (doubtful,))] * is_kept
    assert (shop.status(doubtful) is Status.UNKNOWN) == is_kept
    look(shop)
    assert heard.new() == []


@pytest.mark.parametrize("end", ENDS)
def test_its_rollback_tells_nobody(shop: Shop, doubtful: int, heard: Heard, end: str) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        getattr(cancelled(shop, connection, doubtful, "rollback_only"), end)()
        connection.rollback()
        begin(connection)
        connection.commit()
    look(shop)
    assert heard.new() == []


@pytest.mark.parametrize("end", ENDS)
def test_it_may_end_before_the_session(shop: Shop, doubtful: int, heard: Heard, end: str) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        session = cancelled(shop, connection, doubtful, "rollback_only")
        connection.commit()
        getattr(session, end)()
    look(shop)
    assert heard.new() == [(Status.UNKNOWN, (doubtful,))]


def test_the_next_transaction_of_the_connection_tells(
    shop: Shop, doubtful: int, heard: Heard
) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        cancelled(shop, connection, doubtful, "rollback_only").close()
        connection.commit()
        begin(connection)
        assert heard.new() == [(Status.UNKNOWN, (doubtful,))]
        connection.rollback()


def test_a_receiver_may_write(shop: Shop, doubtful: int) -> None:
    """The transaction is over, and its locks are free."""

    def order(_: object, ids: tuple[int, ...]) -> None:
        with shop.session() as session:
            shop.order(session)
            session.commit()

    with email_unknown.connected_to(order), shop.engine.connect() as connection:
        begin(connection)
        cancelled(shop, connection, doubtful, "rollback_only").commit()
        connection.commit()
        look(shop)
    assert shop.count(shop.orders) == 1


def test_a_commit_that_is_refused_tells_nobody(shop: Shop, doubtful: int, heard: Heard) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        cancelled(shop, connection, doubtful, "rollback_only").close()
        fail_by_hand(shop, connection)
        with pytest.raises(ConfigurationError):
            connection.commit()
        connection.rollback()
    look(shop)
    assert (shop.status(doubtful), heard.new()) == (Status.PENDING, [])


@pytest.mark.databases("postgresql")
def test_a_commit_that_fails_tells_nobody(shop: Shop, doubtful: int, heard: Heard) -> None:
    with shop.engine.begin() as connection:
        connection.execute(
            sa.text("CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        )
    with shop.engine.connect() as connection:
        begin(connection)
        cancelled(shop, connection, doubtful, "rollback_only").close()
        connection.execute(sa.text("INSERT INTO late VALUES (1), (1)"))
        with pytest.raises(sa.exc.IntegrityError):
            connection.commit()
        connection.rollback()
    look(shop)
    assert (shop.status(doubtful), heard.new()) == (Status.PENDING, [])


def test_a_savepoint_that_is_closed_and_not_released_tells_nobody(
    shop: Shop, doubtful: int, heard: Heard
) -> None:
    with shop.session() as session:
        savepoint = session.begin_nested()
        assert shop.outbox.cancel(id=doubtful, session=session) == 0
        savepoint.close()
        shop.order(session)
        session.commit()
    assert (shop.status(doubtful), heard.new()) == (Status.PENDING, [])
