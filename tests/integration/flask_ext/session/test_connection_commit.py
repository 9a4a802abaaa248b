"""The app commits the connection under a session that would end the transaction itself."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session

from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.databases("sqlite", "postgresql")


@pytest.fixture
def nudges(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The nudges so far; the app has a Celery app."""
    found: list[int] = []
    monkeypatch.setattr(shop.runtime, "find_celery", object)
    monkeypatch.setattr(shop.runtime.nudge, "wake", lambda *_: found.append(1))
    return found


def is_told_as_committed(shop: Shop, nudges: list[int]) -> bool:
    return (shop.outbox.discarded, shop.count(shop.tables.email), nudges) == (0, 1, [1])


def test_commit_as_you_go(shop: Shop, nudges: list[int]) -> None:
    with shop.engine.connect() as connection, Session(connection) as session:
        shop.outbox.enqueue(message(), session=session)
        connection.commit()
    assert is_told_as_committed(shop, nudges)


def test_the_sessions_own_connection(shop: Shop, nudges: list[int]) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        session.connection().commit()
    assert is_told_as_committed(shop, nudges)


def test_control_fully(shop: Shop, nudges: list[int]) -> None:
    with shop.engine.connect() as connection:
        with connection.begin():
            session = Session(connection, join_transaction_mode="control_fully")
            shop.outbox.enqueue(message(), session=session)
        session.close()
    assert is_told_as_committed(shop, nudges)


def test_a_rollback_of_the_connection_is_told_by_the_close(
    shop: Shop, nudges: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with shop.engine.connect() as connection, Session(connection) as session:
        shop.outbox.enqueue(message(), session=session)
        connection.rollback()
    assert (shop.outbox.discarded, shop.count(shop.tables.email), nudges) == (1, 0, [])
    assert "1 email was discarded" in caplog.text
