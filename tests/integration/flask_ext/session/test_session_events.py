"""After a commit a nudge, after a loss a warning, and never a word more."""

from __future__ import annotations

import logging

import pytest

from outbox import Outbox
from tests.support.shop.shop import START, Shop, addresses, message, newsletter

pytestmark = pytest.mark.databases("sqlite", "postgresql")


@pytest.fixture
def nudges(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The nudges so far; the app has a Celery app."""
    found: list[int] = []
    monkeypatch.setattr(shop.runtime, "find_celery", object)
    monkeypatch.setattr(shop.runtime.nudge, "wake", lambda: found.append(1))
    return found


def test_a_commit_nudges_once_for_all_its_emails(shop: Shop, nudges: list[int]) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        shop.outbox.enqueue_many(newsletter(), addresses(3), session=session)
        assert nudges == []
        session.commit()
        assert nudges == [1]
        session.commit()
        shop.order(session)
        session.commit()
    assert nudges == [1]


def test_the_release_of_a_savepoint_nudges_nobody(shop: Shop, nudges: list[int]) -> None:
    with shop.session() as session:
        with session.begin_nested():
            shop.outbox.enqueue(message(), session=session, key="order-1")
            with session.begin_nested():
                shop.outbox.enqueue(message(), session=session)
        assert nudges == []
        session.commit()
    assert nudges == [1]


def test_a_rollback_nudges_nobody_and_warns_of_nothing(
    shop: Shop, nudges: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        session.rollback()
        shop.order(session)
        session.commit()
    assert (nudges, shop.outbox.discarded, caplog.text) == ([], 0, "")


def test_emails_for_later_nudge_nobody(shop: Shop, nudges: list[int]) -> None:
    shop.enqueue(send_at=START)
    assert nudges == []


def test_a_key_that_was_taken_nudges_nobody(shop: Shop, nudges: list[int]) -> None:
    shop.enqueue(key="order-1")
    shop.enqueue(key="order-1")
    assert nudges == [1]


def test_without_a_celery_app_nobody_is_nudged(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop.runtime.nudge, "wake", lambda: pytest.fail("nudged"))
    shop.enqueue()


def test_a_nudge_that_fails_does_not_come_out_of_the_commit(
    shop: Shop, nudges: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise OSError("no more threads")

    monkeypatch.setattr(shop.runtime.nudge, "wake", broken)
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        session.commit()
        shop.order(session)
        session.commit()
    assert shop.count(shop.tables.email) == shop.count(shop.orders) == 1
    assert "no sweep was asked for" in caplog.text


def test_emails_that_nobody_committed_are_logged_and_counted(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message("secret@x.example"), session=session)
        shop.outbox.enqueue_many(newsletter(), addresses(2), session=session)
    assert shop.outbox.discarded == 3
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert record.name == "outbox"
    assert "3 emails were discarded" in record.getMessage()
    assert "secret" not in caplog.text


def test_a_savepoint_that_was_rolled_back_does_not_hide_what_was_discarded(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        session.begin_nested().rollback()
    assert shop.outbox.discarded == 1


def test_a_committed_session_discards_nothing(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        session.commit()
        shop.order(session)
    with shop.sessions() as session:
        shop.order(session)
    assert shop.outbox.discarded == 0


def test_an_outbox_without_an_app_says_what_to_do(shop: Shop) -> None:
    with shop.session() as session, pytest.raises(RuntimeError, match="init_app"):
        Outbox().enqueue(message(), session=session)


def test_what_a_savepoint_took_back_was_not_discarded(shop: Shop) -> None:
    """Given an email in a savepoint that its caller rolled back, no warning tells of it later."""
    with shop.session() as session:
        with session.begin_nested():
            nested = session.begin_nested()
            shop.outbox.enqueue(message(), session=session)
            nested.rollback()
        shop.order(session)
    assert shop.outbox.discarded == 0


def test_what_an_outer_savepoint_took_back_was_not_discarded(shop: Shop, nudges: list[int]) -> None:
    with shop.session() as session:
        outer = session.begin_nested()
        with session.begin_nested():
            shop.outbox.enqueue(message(), session=session)
        outer.rollback()
        session.commit()
        shop.outbox.enqueue(message(), session=session)
    assert (shop.outbox.discarded, nudges) == (1, [])


def test_what_was_released_and_never_committed_was_discarded(shop: Shop) -> None:
    with shop.session() as session:
        with session.begin_nested():
            shop.outbox.enqueue_many(newsletter(), addresses(2), session=session)
        shop.outbox.enqueue(message(), session=session)
        session.begin_nested().rollback()
    assert shop.outbox.discarded == 3
