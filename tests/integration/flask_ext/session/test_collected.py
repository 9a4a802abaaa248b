"""A session that is dropped, neither committed nor closed, tells of what was lost with it."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import g
from sqlalchemy.orm import Session, sessionmaker

from outbox.testing import OutboxTester
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = pytest.mark.one_database("sqlite")

LOST = (
    "outbox: {emails} discarded: the session was dropped, neither committed nor closed. That is"
    " right after an error or a rollback; otherwise call its commit() after enqueue"
)


@pytest.fixture(autouse=True)
def collected_here(young_heap: None) -> Iterator[None]:
    """The collector runs only where a test says so."""
    gc.disable()
    yield
    gc.enable()


def drop(shop: Shop, use: Callable[[Session], object]) -> None:
    """Use a session that nobody commits or closes, and have it collected."""
    use(Session(shop.engine))
    gc.collect()


def in_a_request(shop: Shop) -> None:
    with shop.app.app_context():
        pass


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert "example" not in caplog.text
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def test_the_end_of_the_next_request_tells(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    def use(session: Session) -> None:
        shop.outbox.enqueue(message(), session=session)
        shop.outbox.enqueue_many(newsletter(), addresses(2), session=session)

    drop(shop, use)
    in_a_request(shop)
    assert lines(caplog) == [LOST.format(emails="3 emails were")]
    [record] = caplog.records
    values = {"event": "emails_discarded", "emails": 3, "origin": ""}
    assert record.outbox == values  # type: ignore[attr-defined]
    in_a_request(shop)
    assert (len(caplog.records), shop.outbox.discarded) == (1, 3)
    assert shop.count(shop.tables.email) == 0


def test_the_requests_own_end_tells_of_a_session_that_went_with_its_context(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The common recipe `g.session = sessionmaker()` with its teardown forgotten."""
    made = sessionmaker(shop.engine)
    for _ in range(2):
        with shop.app.app_context():
            g.session = made()
            shop.outbox.enqueue(message(), session=g.session)
        gc.collect()
    assert lines(caplog) == [LOST.format(emails="1 email was")]  # the first one's, by the second
    assert shop.outbox.discarded == 2  # whoever asks has the second, too


def test_the_next_enqueue_tells(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    drop(shop, lambda session: shop.outbox.enqueue(message(), session=session))
    shop.enqueue()
    assert lines(caplog) == [LOST.format(emails="1 email was")]


def test_what_was_withdrawn_in_vain_is_told(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.enqueue(tag="order-1")
    drop(shop, lambda session: shop.outbox.cancel(tag="order-1", session=session))
    in_a_request(shop)
    [line] = lines(caplog)
    assert line == (
        "outbox: 1 email is not withdrawn after all: the session was dropped, neither committed nor"
        " closed. That is right after an error or a rollback; otherwise call its commit() after"
        " cancel"
    )
    assert shop.statuses() == ["pending"]


@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
def test_a_session_that_was_ended_tells_nothing_more(
    shop: Shop, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    def use(session: Session) -> None:
        shop.outbox.enqueue(message(), session=session)
        getattr(session, ending)()

    drop(shop, use)
    told = len(caplog.records)
    in_a_request(shop)
    assert (told, len(caplog.records)) == (int(ending == "close"),) * 2


def test_the_collector_itself_logs_nothing(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """It runs at any statement, also within a lock that a log handler needs."""
    drop(shop, lambda session: shop.outbox.enqueue(message(), session=session))
    assert caplog.records == []
    in_a_request(shop)
    assert len(caplog.records) == 1


def test_a_collector_in_another_thread_is_told_of_too(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.outbox.enqueue(message(), session=Session(shop.engine))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(gc.collect).result()
    in_a_request(shop)
    assert lines(caplog) == [LOST.format(emails="1 email was")]


def test_the_app_that_lost_it_counts_it(shop: Shop) -> None:
    with OutboxTester(shop.app) as outbox:
        drop(shop, lambda session: shop.outbox.enqueue(message(), session=session))
        with pytest.raises(AssertionError, match="1 email was discarded"):
            outbox.assert_enqueued()
