"""The database undoes a connection's transaction behind the end of the session with the emails.

Somebody swallows the error. The commit of the connection would seem to work, and nothing stands.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.orm import Session

from outbox import ConfigurationError
from tests.integration.atomic.undone.undoing import FAILURES, REFUSED, place, stand
from tests.integration.flask_ext.session.test_outer_transaction import begin, nudges
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

__all__ = ["nudges"]

ENDS: dict[str, Callable[[Session], object]] = {
    "commit": Session.commit,
    "close": Session.close,
    "is dropped": lambda _: None,
    "goes on": Session.flush,
}


def placed(shop: Shop, connection: Connection, end: Callable[[Session], object]) -> Session | None:
    """Place an order in a session that ends then; return one that goes on."""
    session = Session(connection, join_transaction_mode="rollback_only")
    place(shop, session)
    end(session)
    return session if end is Session.flush else None


def fail(shop: Shop, connection: Connection) -> None:
    """Have the database undo the transaction, and swallow the error."""
    with Session(connection) as other, pytest.raises(DBAPIError):
        FAILURES[connection.dialect.name](shop, other)


def fail_by_hand(shop: Shop, connection: Connection) -> None:
    """Likewise, over the connection itself, and by its first statement where that can be."""
    with pytest.raises(DBAPIError):
        FAILURES[connection.dialect.name](shop, connection)  # type: ignore[arg-type]


def refused(connection: Connection) -> None:
    with pytest.raises(ConfigurationError, match=REFUSED) as raised:
        connection.commit()
    assert isinstance(raised.value, PendingRollbackError)
    connection.rollback()


@pytest.mark.matrix
@pytest.mark.parametrize("failing", [fail, fail_by_hand])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_commit_of_the_connection_is_refused(
    shop: Shop,
    nudges: list[int],
    end: Callable[[Session], object],
    failing: Callable[[Shop, Connection], None],
) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        session = placed(shop, connection, end)
        failing(shop, connection)
        refused(connection)
        assert nudges == []
        if session is not None:
            session.close()
        begin(connection)
        placed(shop, connection, Session.commit)
        connection.commit()
    assert nudges == [1]
    assert shop.outbox.discarded == 0
    stand(shop, 1)


@pytest.mark.databases("sqlite", "mariadb")
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_came_behind_the_error_is_in_no_later_commit(
    shop: Shop, end: Callable[[Session], object]
) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        session = placed(shop, connection, end)
        fail_by_hand(shop, connection)
        connection.execute(sa.insert(shop.orders).values(customer="Eve"))
        refused(connection)
        if session is not None:
            session.close()
        begin(connection)
        connection.commit()
    stand(shop, 0)


@pytest.mark.databases("postgresql")
def test_a_savepoint_takes_the_error_back(shop: Shop, nudges: list[int]) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        placed(shop, connection, Session.close)
        with pytest.raises(DBAPIError), connection.begin_nested():
            connection.execute(sa.text("SELECT 1/0"))
        connection.commit()
    assert nudges == [1]
    stand(shop, 1)


@pytest.mark.parametrize("is_email", [True, False])
def test_without_an_email_it_is_left_alone(shop: Shop, is_email: bool) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            if is_email:  # and a rollback of the session's savepoint
                place(shop, session)
            else:
                shop.order(session)
                session.commit()
        fail_by_hand(shop, connection)
        connection.commit()
    stand(shop, 0)


def test_nor_is_the_next_transaction_of_the_connection_refused(shop: Shop) -> None:
    with shop.engine.connect() as connection:
        begin(connection)
        placed(shop, connection, Session.close)
        connection.rollback()
        begin(connection)
        fail_by_hand(shop, connection)
        connection.commit()
    stand(shop, 0)
