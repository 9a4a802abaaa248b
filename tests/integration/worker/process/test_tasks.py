"""What a sweep sends by itself, and what it publishes."""

from __future__ import annotations

import pytest

from outbox import Priority
from outbox.worker.tasks import sweep_and_send
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import standing, write

pytestmark = pytest.mark.one_database("mariadb")

WINDOW = 5
SENT = ("sent", 1, 0, 0)
CLAIMED = ("claimed", 0, 0, 0)


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    return shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=WINDOW, OUTBOX_SLOTS=2)


def published(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, spent: float | None = None
) -> list[str]:
    """Go on; return the queues of the send tasks that a broker would have got.

    Before that the task has `spent` so many seconds on a batch.
    """
    queues: list[str] = []

    def publish(task: str, queue: str, token: str) -> bool:
        queues.append(queue)
        return True

    monkeypatch.setattr(shop.runtime, "publish", publish)
    sweep_and_send(shop.runtime, since=None if spent is None else shop.runtime.clock() - spent)
    return queues


def test_a_small_claim_that_is_alone_needs_no_broker(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(shop, WINDOW)
    assert published(shop, monkeypatch) == []
    assert standing(shop) == {SENT: WINDOW}


def test_urgent_email_goes_at_once_and_bulk_through_the_broker(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(shop, 3 * WINDOW, priority=Priority.BULK)
    write(shop, 1, priority=Priority.URGENT)
    assert published(shop, monkeypatch) == ["outbox.bulk"]
    assert standing(shop) == {SENT: 1, CLAIMED: 3 * WINDOW}


def test_of_several_claims_one_goes_at_once_and_the_broker_spreads_the_others(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(shop, WINDOW + 1, priority=Priority.URGENT)
    assert published(shop, monkeypatch) == ["outbox.urgent"]
    assert standing(shop) == {SENT: WINDOW, CLAIMED: 1}


def test_a_large_claim_goes_through_the_broker(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    write(shop, 3 * WINDOW, priority=Priority.BULK)
    assert published(shop, monkeypatch) == ["outbox.bulk"] * 2
    assert standing(shop) == {CLAIMED: 3 * WINDOW}


@pytest.mark.parametrize("is_long", [False, True])
def test_behind_a_batch_that_took_long_even_a_small_claim_is_another_task_s(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """Two slow emails in one task would take longer than the time that it is given."""
    write(shop, WINDOW, priority=Priority.URGENT)
    spent = shop.runtime.settings.batch_seconds + 1.0 if is_long else 1.0
    assert published(shop, monkeypatch, spent=spent) == ["outbox.urgent"] * is_long
    assert standing(shop) == {CLAIMED if is_long else SENT: WINDOW}
