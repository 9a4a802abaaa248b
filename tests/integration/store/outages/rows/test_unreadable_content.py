"""The database cannot read the content of one email: it stops no other email, and ends."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.store.transitions.start import start
from outbox.worker.batch.content_reader import ContentReader, NotHeld, UnreadableContent
from tests.integration.store.locks import PATIENCE, UNTOUCHED
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import LEASE, WORKER, Shop, Shops, addresses
from tests.support.shop.steps.motion import Motion, standing

pytestmark = [pytest.mark.databases("postgresql"), pytest.mark.long]

SENT, FAILED, PENDING = Status.SENT, Status.FAILED, Status.PENDING

BROKEN = "RAISE EXCEPTION 'missing chunk number 0 for toast value' USING ERRCODE = 'XX001'"


@contextmanager
def broken(shop: Shop, content_id: int) -> Iterator[None]:
    """Have each read of this content fail, as that of a page does that a disk has lost."""
    names = [column.name for column in shop.tables.content.c]
    body = f"CASE WHEN id = {content_id} THEN lost() ELSE body END AS body"
    columns = ", ".join(body if name == "body" else name for name in names)
    with shop.engine.begin() as connection:
        _answer(connection, BROKEN)
        connection.exec_driver_sql("ALTER TABLE outbox_content RENAME TO stored_content")
        view = f"CREATE VIEW outbox_content AS SELECT {columns} FROM stored_content"
        connection.exec_driver_sql(view)
    try:
        yield
    finally:
        with shop.engine.begin() as connection:
            _answer(connection, "RETURN ''::bytea")  # no thread waits for it any more


def _answer(connection: sa.Connection, what: str) -> None:
    connection.exec_driver_sql(
        "CREATE OR REPLACE FUNCTION lost() RETURNS bytea LANGUAGE plpgsql AS"
        f" $$ BEGIN {what}; END $$"
    )


def work(motion: Motion) -> None:
    """Run all that beat causes, within the time of a test."""
    with suppress(UnreadableContent):
        motion.beat()


def test_the_emails_beside_it_are_sent_and_it_is_charged_a_crash(
    shops: Shops, catcher: Catcher
) -> None:
    settings = {"OUTBOX_LEASE": 1.0, "OUTBOX_SLOTS": 1, "OUTBOX_MAX_CRASHES": 3}
    shop = shops.open(MAIL_PORT=catcher.port, **settings)
    ids = [shop.enqueue(address).id for address in addresses(4)]
    motion = Motion(shop=shop)
    content = shop.email_row(ids[1]).content_id
    with ThreadPoolExecutor(1) as pool, broken(shop, content):
        pool.submit(work, motion).result(PATIENCE)
        assert [shop.status(i) for i in ids] == [SENT] + [PENDING] * 3
        assert [shop.email_row(i).crashes for i in ids] == [0, 1, 0, 0]
        for _ in range(3):
            shop.later(3600)
            pool.submit(work, motion).result(PATIENCE)
    assert [shop.status(i) for i in ids] == [SENT, FAILED, SENT, SENT]
    assert set(catcher.copies().values()) == {1}
    assert shop.count(shop.tables.lease) == 0


def test_it_keeps_no_batch_whose_lease_is_lost(shop: Shop) -> None:
    shop.enqueue()
    [made], now = shop.claim(), iter(range(100))
    batch = start(shop.database, made.token, lease_seconds=LEASE, worker=WORKER)
    assert batch is not None
    [email] = batch.emails
    reader = ContentReader(
        shop.database, 1000, clock=lambda: float(next(now)), holds=lambda: False, term=1.0
    )
    reader.prefetch([email])
    with ThreadPoolExecutor(1) as pool, broken(shop, email.content_id):
        reading = pool.submit(reader.body, email)
        with pytest.raises(NotHeld):
            reading.result(PATIENCE)


def test_an_email_that_is_not_read_because_the_lease_is_lost_goes_back_uncharged(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> bytes:
        raise NotHeld

    shop = shops.open(MAIL_PORT=catcher.port)
    shop.enqueue()
    monkeypatch.setattr(ContentReader, "body", lost)
    motion = Motion(shop=shop)
    motion.sweep()
    motion.work()
    assert standing(shop) == {UNTOUCHED: 1}
