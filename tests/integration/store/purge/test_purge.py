"""Retention and expiry: what ends by itself, and what is removed afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest
from sqlalchemy import insert

from outbox import Status
from outbox.domain.config.retention import Retention
from outbox.domain.delivery.status import FINISHED
from outbox.store.retention.mark import PurgeUnderWay
from outbox.store.retention.purge import purge as chunks
from outbox.store.schema.clock import utc
from outbox.store.transitions.cancel import withdraw
from outbox.store.transitions.expire import expire
from tests.support.shop.shop import Shop, addresses, message, newsletter, sent
from tests.support.shop.steps.purged import removed as purge

pytestmark = pytest.mark.each_database

DAY = 86_400.0


def finished(shop: Shop, *to: str, **options: object) -> int:
    email = shop.enqueue(*to, **options)
    made = shop.sending(email.id)
    shop.record(made.token, [sent(email.id)])
    return email.id


def in_status(shop: Shop, status: Status) -> int:
    """Put an email there by hand; the ways are another file's."""
    email = shop.enqueue()
    table = shop.tables.email
    leased = status in (Status.CLAIMED, Status.SENDING)
    made = shop.started() if leased else None
    values = {
        "status": status,
        "due_at": shop.database.now() if status is Status.PENDING else None,
        "token": made.token if made else None,
        "finished_at": None if leased or status is Status.PENDING else shop.database.now(),
    }
    row = shop.values(email.id)
    with shop.engine.begin() as connection:
        connection.execute(table.delete().where(table.c.id == email.id))
        connection.execute(insert(table).values(**{**row, **values}))
    return email.id


@pytest.mark.matrix
@pytest.mark.parametrize("status", list(Status))
def test_only_finished_emails_are_ever_removed(shop: Shop, status: Status) -> None:
    in_status(shop, status)
    shop.later(1)
    removed = purge(shop)
    assert removed == (1 if status in FINISHED else 0)
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 1 - removed


@pytest.mark.each_driver
def test_an_email_is_removed_with_its_recipients_attempts_and_content(shop: Shop) -> None:
    finished(shop, "a@x.example", "b@x.example")
    shop.later(DAY - 5)
    assert purge(shop, DAY) == 0
    shop.later(10)
    assert purge(shop, DAY) == 1
    tables = shop.tables
    for table in (tables.email, tables.content, tables.recipient, tables.attempt):
        assert shop.count(table) == 0


def test_a_content_goes_with_the_last_of_its_emails(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(3), session=session, priority="normal")
        session.commit()
    first, second, _ = (row.id for row in shop.rows(shop.tables.email))
    (made,) = shop.claim(2)
    shop.start(made.token)
    shop.open(made.token, first, second)
    shop.record(made.token, [sent(first), sent(second)])
    shop.later(1)
    assert purge(shop) == 2
    assert shop.count(shop.tables.content) == 1


def test_a_purged_email_frees_its_key(shop: Shop) -> None:
    first = finished(shop, key="order-1")
    assert not shop.enqueue(key="order-1").created
    shop.later(1)
    assert purge(shop) == 1
    again = shop.enqueue(key="order-1")
    assert again.created
    assert again.id != first


@pytest.mark.long
def test_purge_works_in_chunks_until_nothing_is_left(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(1100), session=session, tag="news")
        session.commit()
    with shop.session() as session:
        shop.outbox.cancel(tag="news", session=session)
        session.commit()
    shop.later(1)
    parts = [chunk.emails for chunk in chunks(shop.database, Retention.of_all(0.0))]
    assert [emails for emails in parts if emails] == [500, 500, 100]
    assert shop.count(shop.tables.content) == 0


@pytest.mark.long
def test_purge_and_an_enqueue_that_reuses_a_content_at_once_lose_neither(shop: Shop) -> None:
    text = "Terms. " * 20_000

    def enqueue(number: int) -> None:
        with shop.session() as session:
            shop.outbox.enqueue(
                message(f"r{number}@x.example", text=text), session=session, tag="t"
            )
            session.commit()

    def remove(_: int) -> None:
        shop.database.run(lambda c: withdraw(c, shop.database, tag="t"))
        with suppress(PurgeUnderWay):
            purge(shop, -60.0)

    enqueue(0)
    with ThreadPoolExecutor(2) as pool:
        works = [pool.submit(work, n) for n in range(1, 25) for work in (enqueue, remove)]
        for work in works:
            work.result()
    kept = {row.content_id for row in shop.rows(shop.tables.email)}
    assert kept == {row.id for row in shop.rows(shop.tables.content)}


@pytest.mark.each_driver
def test_waiting_emails_end_when_their_time_has_passed(shop: Shop) -> None:
    start = utc(shop.email_row(shop.enqueue().id).created_at)
    soon = shop.enqueue(expires_at=start + timedelta(seconds=60))
    later = shop.enqueue(expires_at=start + timedelta(seconds=600))
    assert expire(shop.database) == 0
    shop.later(61)
    assert expire(shop.database) == 1
    row = shop.email_row(soon.id)
    assert (row.status, row.due_at) == (Status.EXPIRED, None)
    assert row.finished_at is not None
    assert shop.status(later.id) is Status.PENDING


def test_an_email_in_doubt_whose_time_has_passed_is_unknown_and_not_expired(shop: Shop) -> None:
    start = utc(shop.email_row(shop.enqueue().id).created_at)
    email = shop.enqueue(expires_at=start + timedelta(seconds=600))
    made = shop.started()
    shop.open(made.token, email.id)
    shop.rescue()
    shop.later(600)
    expire(shop.database)
    assert shop.status(email.id) is Status.UNKNOWN


def test_a_claimed_email_is_not_expired_under_its_worker(shop: Shop) -> None:
    start = utc(shop.email_row(shop.enqueue().id).created_at)
    email = shop.enqueue(expires_at=start + timedelta(seconds=60))
    shop.started()
    shop.later(61)
    assert expire(shop.database) == 0
    assert shop.status(email.id) is Status.CLAIMED
