"""The body after n days, the record after m."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

import pytest
from sqlalchemy import event

from outbox import Status
from outbox.domain.config.retention import Retention
from outbox.domain.delivery.status import FINISHED
from outbox.store.retention import walk
from outbox.store.retention.purge import purge
from outbox.store.transitions.release import give_back
from tests.integration.store.purge.test_purge import DAY, finished, in_status
from tests.support.shop.shop import Shop, addresses, message, newsletter, sent
from tests.support.shop.steps.purged import bared, removed

pytestmark = pytest.mark.each_database

TERMS = "Terms. " * 20_000


def bodies(shop: Shop) -> dict[int, bytes]:
    """Return what the content of each email holds."""
    stored = {row.id: row.body for row in shop.rows(shop.tables.content)}
    return {row.id: stored[row.content_id] for row in shop.rows(shop.tables.email)}


def readers(shop: Shop, count: int) -> list[int]:
    """Enqueue a newsletter with values of each reader's own; return the emails' ids."""
    with shop.session() as session:
        shop.outbox.enqueue_many(
            newsletter("Hello {{ name }}!"),
            addresses(count),
            session=session,
            fields=lambda to: {"name": to},
            priority="normal",
        )
        session.commit()
    return [row.id for row in shop.rows(shop.tables.email)]


def send(shop: Shop, *ids: int) -> None:
    made = shop.started()
    shop.open(made.token, *ids)
    shop.record(made.token, [sent(email_id) for email_id in ids])
    shop.database.run(lambda c: give_back(c, shop.database, made.token))


@pytest.mark.long
@pytest.mark.each_driver
def test_the_body_goes_first_and_the_record_later(shop: Shop) -> None:
    email_id = finished(shop, "a@x.example", "b@x.example", key="order-1")
    shop.later(3 * DAY - 5)
    assert bared(shop, 3 * DAY) == 0
    shop.later(10)
    assert bared(shop, 3 * DAY) == 1
    row = shop.email_row(email_id)
    assert (bodies(shop), row.headers, row.merge) == ({email_id: b""}, b"", None)
    assert row.redacted_at is not None
    assert (row.key, row.size > 0, shop.count(shop.tables.attempt)) == ("order-1", True, 1)
    assert bared(shop, 3 * DAY) == 0
    shop.later(30 * DAY)
    assert removed(shop, 30 * DAY) == 1
    tables = shop.tables
    for table in (tables.email, tables.content, tables.recipient, tables.attempt):
        assert shop.count(table) == 0


@pytest.mark.matrix
@pytest.mark.parametrize("status", list(Status))
def test_only_finished_emails_lose_their_bodies(shop: Shop, status: Status) -> None:
    email_id = in_status(shop, status)
    shop.later(DAY)
    assert bared(shop, 0.0) == (status in FINISHED)
    assert (bodies(shop)[email_id] == b"") == (status in FINISHED)


def test_a_body_that_emails_share_goes_with_the_last_of_them(shop: Shop) -> None:
    first, second, third = readers(shop, 3)
    send(shop, first, third)
    shop.later(DAY)
    assert bared(shop, 0.0) == 2
    rows = {row.id: row for row in shop.rows(shop.tables.email)}
    assert [bool(rows[one].merge) for one in (first, second, third)] == [False, True, False]
    assert [bool(rows[one].headers) for one in (first, second, third)] == [False, True, False]
    assert [bool(octets) for octets in bodies(shop).values()] == [False, True, False]
    send(shop, second)
    shop.later(DAY)
    assert bared(shop, 0.0) == 1
    assert set(bodies(shop).values()) == {b""}
    assert shop.count(shop.tables.content) == 1, "the empty one"


def test_a_body_that_is_gone_is_not_found_again(shop: Shop) -> None:
    for number in range(2):
        with shop.session() as session:
            email = shop.outbox.enqueue(message(text=TERMS), session=session)
            session.commit()
        send(shop, email.id)
        if not number:
            shop.later(DAY)
            assert bared(shop, 0.0) == 1
    assert [len(octets) > 100_000 for octets in bodies(shop).values()] == [False, True]


def test_an_email_whose_body_is_gone_cannot_be_retried(shop: Shop) -> None:
    first, second = in_status(shop, Status.FAILED), in_status(shop, Status.FAILED)
    shop.later(DAY)
    with closing(purge(shop.database, Retention.of_all(9 * DAY), body_retention=0.0)) as chunks:
        assert sum(chunk.bodies for chunk in chunks) == 2
    third = in_status(shop, Status.FAILED)
    done = shop.outbox.retry([first, third])
    assert (done.redacted, list(done.changed)) == ((first,), [third])
    assert shop.status(second) is Status.FAILED


def test_an_email_that_finishes_behind_the_mark_loses_its_body_in_its_time(shop: Shop) -> None:
    late, other = shop.enqueue().id, in_status(shop, Status.UNKNOWN)
    shop.later(10 * DAY)
    assert bared(shop, DAY) == 0
    assert [row.email_id for row in shop.rows(shop.tables.body_straggler)] == [late, other]
    send(shop, late)
    shop.later(DAY - 10)
    assert bared(shop, DAY) == 0
    shop.later(20)
    assert bared(shop, DAY) == 1
    assert [row.email_id for row in shop.rows(shop.tables.body_straggler)] == [other]


@pytest.mark.long
def test_bodies_go_in_short_transactions_that_may_end_anywhere(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "CHUNK", 2)
    send(shop, *readers(shop, 7))
    shop.later(DAY)
    with closing(purge(shop.database, Retention.of_all(9 * DAY), body_retention=0.0)) as chunks:
        assert next(filter(None, (chunk.bodies for chunk in chunks))) == 2
    assert [row.redacted_at is None for row in shop.rows(shop.tables.email)].count(False) == 2

    def die(_connection: object, _cursor: object, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE outbox_email"):
            raise KeyboardInterrupt

    event.listen(shop.engine, "after_cursor_execute", die)
    with suppress(KeyboardInterrupt):
        bared(shop, 0.0)
    event.remove(shop.engine, "after_cursor_execute", die)
    assert [row.redacted_at is None for row in shop.rows(shop.tables.email)].count(False) == 2
    assert bared(shop, 0.0) == 5
    assert set(bodies(shop).values()) == {b""}


@pytest.mark.long
def test_whole_emails_and_bodies_go_in_one_run(shop: Shop) -> None:
    """Also where the empty content goes with the last email that has it, and is needed again."""
    for _ in range(3):
        old = finished(shop)
        shop.later(2 * DAY)
        new = finished(shop)
        shop.later(2 * DAY)
        with closing(purge(shop.database, Retention.of_all(3 * DAY), body_retention=DAY)) as run:
            done = list(run)
        assert sum(chunk.emails for chunk in done) >= 1
        assert old not in bodies(shop)
        assert bodies(shop)[new] == b""
    used = {row.content_id for row in shop.rows(shop.tables.email)}
    assert used == {row.id for row in shop.rows(shop.tables.content)}
