"""A batch runs code of the app, log filters and receivers: their errors cost no known result."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from outbox import Status, email_sent
from outbox.store.connection import shared_rows
from outbox.store.control import lease
from outbox.worker import tracing
from tests.integration.store.locks import PATIENCE, hold, in_time, lock_lease, vanished
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses, sent
from tests.support.shop.steps.motion import Motion

pytestmark = pytest.mark.databases("postgresql", "mariadb")

SENT, FAILED, PENDING = Status.SENT, Status.FAILED, Status.PENDING


def outside_of_requests(_: logging.LogRecord) -> bool:
    raise RuntimeError("Working outside of request context.")


@pytest.fixture
def _raising_filter(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.INFO, "outbox")
    logger = logging.getLogger("outbox")
    logger.addFilter(outside_of_requests)
    yield
    logger.removeFilter(outside_of_requests)


def claimed(shops: Shops, catcher: Catcher, emails: int) -> tuple[Motion, list[int]]:
    """Return a shop whose emails are one claimed batch of windows of two, and their ids."""
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
    ids = [shop.enqueue(address).id for address in addresses(emails)]
    motion = Motion(shop=shop)
    motion.sweep()
    return motion, ids


@pytest.mark.usefixtures("_raising_filter")
def test_a_result_whose_row_is_held_outlives_a_filter_that_raises(shop: Shop) -> None:
    email = shop.enqueue().id
    token, unrecorded = shop.sending(email).token, shop.runtime.unrecorded
    with shop.session() as session:
        hold(shop, session, email)
        unrecorded.keep(token, [sent(email)])
        assert shop.status(email) is Status.SENDING
    assert unrecorded.wait(PATIENCE)
    assert shop.status(email) is SENT


@pytest.mark.usefixtures("_raising_filter")
def test_a_filter_that_raises_ends_no_batch_behind_an_email_that_has_failed(
    shops: Shops, catcher: Catcher
) -> None:
    motion, ids = claimed(shops, catcher, 4)
    gone = addresses(1)[0]
    catcher.reply_to_recipient = lambda address: "550 5.1.1 no" if address == gone else None
    motion.work()
    assert [motion.shop.status(i) for i in ids] == [FAILED, SENT, SENT, SENT]


@pytest.mark.usefixtures("_raising_filter")
def test_a_filter_and_a_receiver_that_raise_end_no_batch(shops: Shops, catcher: Catcher) -> None:
    motion, ids = claimed(shops, catcher, 4)

    def faulty(_: object, **__: object) -> None:
        raise KeyError

    with email_sent.connected_to(faulty):
        motion.work()
    assert [motion.shop.status(i) for i in ids] == [SENT] * 4
    assert motion.shop.count(motion.shop.tables.lease) == 0


@pytest.mark.usefixtures("_raising_filter")
def test_a_filter_that_raises_hides_no_row_that_is_locked(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_rows, "PATIENCE", 0.0)
    shop.enqueue()
    token = shop.started().token
    with vanished(shop, shop.tables.lease, token) as session:
        in_time(lambda: lease.drop(shop.database, token), session)


@pytest.mark.usefixtures("_raising_filter")
def test_a_filter_that_raises_ends_no_thread_of_the_leases(shop: Shop) -> None:
    email = shop.enqueue().id
    token, unended = shop.started().token, shop.runtime.unended
    with shop.session() as session:
        hold(shop, session, email)
        lock_lease(shop, session, token)
        unended.keep(token)
    assert unended.wait(PATIENCE)
    assert shop.status(email) is PENDING


@pytest.mark.usefixtures("_raising_filter")
def test_a_filter_that_raises_does_not_make_an_open_telemetry_harmful() -> None:
    with tracing.harmless():
        raise AttributeError("of an exporter")
    tracing._told.discard("AttributeError")


def test_a_time_limit_in_a_receiver_leaves_no_email_of_the_next_window_in_doubt(
    shops: Shops, catcher: Catcher
) -> None:
    """It is called behind the commit that has opened that window."""
    motion, ids = claimed(shops, catcher, 6)
    shop = motion.shop

    def out_of_time(_: object, **__: object) -> None:
        raise SoftTimeLimitExceeded

    with email_sent.connected_to(out_of_time), pytest.raises(SoftTimeLimitExceeded):
        motion.work()
    assert [shop.status(i) for i in ids] == [SENT] * 2 + [PENDING] * 4
    motion.beat()
    assert [shop.status(i) for i in ids] == [SENT] * 6
    rows = shop.rows(shop.tables.email)
    assert {(row.attempts, row.crashes, row.unknown_count) for row in rows} == {(1, 0, 0)}
    assert set(catcher.copies().values()) == {1}
