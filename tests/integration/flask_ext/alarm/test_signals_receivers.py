"""What receivers of the signals may do: raise, be coroutines, use the database, or not be there."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from flask import Flask
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from outbox import Status, email_failed, email_sent, email_unknown
from outbox.store.connection import database as databases
from outbox.worker.drain import drain
from tests.integration.hearing import hearing
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shop, Shops, sent

pytestmark = pytest.mark.one_database("postgresql")


@contextmanager
def statements(shop: Shop) -> Iterator[Counter[str]]:
    """Count the statements of the shop's engine, those in the driver's own form, too."""
    found = Counter[str]()

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        found[statement] += 1

    event.listen(shop.engine, "before_cursor_execute", note)
    yield found
    event.remove(shop.engine, "before_cursor_execute", note)


def everything(shop: Shop) -> None:
    """Send some, lose one, resolve one, and let one expire in doubt."""
    shop.runtime.clock = lambda: 0.0  # what is looked at by time would differ
    for _ in range(5):
        shop.enqueue()
    assert drain(shop.runtime) == 5
    lost = shop.enqueue(on_unknown="hold").id
    shop.lose(lost)
    shop.outbox.resolve(lost, "sent")


@pytest.mark.long
def test_who_listens_costs_no_statement(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=2)
    everything(shop)  # connections, and statements that are made once
    with statements(shop) as before:
        everything(shop)
    with hearing() as heard, statements(shop) as after:
        everything(shop)
    assert sum(before.values()) > 20
    assert after == before
    assert sorted(len(ids) for _, ids in heard.new()) == [1, 1, 1, 2, 2]


def test_a_receiver_that_raises_keeps_neither_the_record_nor_the_others_from_theirs(
    shops: Shops, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=2)

    def raising(sender: Flask, ids: tuple[int, ...]) -> NoReturn:
        raise ValueError("a@customers.example has no account")

    ids = [shop.enqueue().id for _ in range(3)]
    with hearing() as heard, email_sent.connected_to(raising):
        assert drain(shop.runtime) == 3
        told = [email_id for _, some in heard.new() for email_id in some]
    assert sorted(told) == ids
    assert set(shop.statuses()) == {"sent"}
    assert max(catcher.copies().values()) == 1
    lines = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 2, "one a window"
    assert "raising of email-sent failed (ValueError)" in lines[0].getMessage()
    assert "customers" not in caplog.text


def test_a_receiver_may_be_a_coroutine_or_be_connected_to_one_app(shops: Shops) -> None:
    shop, other = shops.open(), Flask("other")
    told: list[tuple[int, ...]] = []

    async def coroutine(sender: Flask, ids: tuple[int, ...]) -> None:
        told.append(ids)

    def for_another(sender: Flask, **_: Any) -> NoReturn:
        raise AssertionError("it was connected to another app")

    with (
        email_unknown.connected_to(coroutine, sender=shop.app),
        email_unknown.connected_to(for_another, sender=other),
    ):
        email_id = stuck(shop, Status.UNKNOWN)
    assert told == [(email_id,)]


def test_a_receiver_finds_the_email_committed_and_may_use_the_outbox(shop: Shop) -> None:
    found: list[Status] = []

    def again(sender: Flask, ids: tuple[int, ...]) -> None:
        with sender.app_context():
            for email_id in ids:
                email = shop.outbox.get(email_id)
                assert email is not None
                found.append(email.status)
            shop.outbox.retry(ids)

    with email_failed.connected_to(again):
        email_id = stuck(shop, Status.FAILED)
    assert found == [Status.FAILED]
    assert shop.status(email_id) is Status.PENDING


def test_a_muted_signal_tells_nobody(shop: Shop) -> None:
    with hearing() as heard, email_unknown.muted():
        stuck(shop, Status.UNKNOWN)
        assert heard.new() == []


def test_a_time_limit_that_is_over_within_a_receiver_ends_the_task(shop: Shop) -> None:
    """It is the task's, and what was recorded stays recorded."""

    def slow(sender: Flask, ids: tuple[int, ...]) -> NoReturn:
        raise SoftTimeLimitExceeded

    email = shop.enqueue()
    made = shop.sending(email.id)
    with email_sent.connected_to(slow), pytest.raises(SoftTimeLimitExceeded):
        shop.record(made.token, [sent(email.id)])
    assert shop.status(email.id) is Status.SENT


def test_a_transaction_that_a_deadlock_ended_and_that_is_made_again_tells_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    email_id = stuck(shop, Status.UNKNOWN)
    monkeypatch.setattr(databases, "is_transient", lambda error: True)
    failures = [OperationalError("COMMIT", {}, Exception("deadlock"))]
    transaction = shop.database.transaction

    @contextmanager
    def doomed() -> Iterator[Any]:
        with transaction() as connection:
            yield connection
            if failures:
                raise failures.pop()

    monkeypatch.setattr(shop.database, "transaction", doomed)
    with hearing() as heard:
        shop.outbox.resolve(email_id, "sent")
        assert heard.new() == [(Status.SENT, (email_id,))]
    assert not failures
