"""A batch that an error ends stops no other batch of `flask outbox drain`."""

from __future__ import annotations

from typing import NoReturn
from uuid import UUID

import pytest
from sqlalchemy.exc import DBAPIError

from outbox import Priority
from outbox.store.transitions.window import finish
from outbox.worker import drain as module
from outbox.worker.drain import MOST_FAILED, drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.schema import refusing
from tests.support.shop.shop import WORKER, Shops, addresses

pytestmark = pytest.mark.each_database


@pytest.mark.long
def test_the_other_batches_are_sent_and_the_error_is_raised_at_the_end(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_BATCH=2, OUTBOX_WINDOW=2, OUTBOX_SLOTS=2)
    faulty = shop.enqueue(priority=Priority.URGENT).id
    for address in addresses(9):
        shop.enqueue(address)
    condition = f"OLD.id = {faulty} AND NEW.status = 'sent'"
    with refusing(shop.engine, "outbox_email", condition), pytest.raises(DBAPIError):
        drain(shop.runtime)
    assert shop.statuses() == ["sending"] + ["sent"] * 9
    assert set(catcher.copies().values()) == {1}


@pytest.mark.long
def test_a_drain_whose_batches_all_fail_ends(shops: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server makes a batch fail that gives all of its emails back: this is a double."""
    shop, failed = shops.open(), list[UUID]()
    shop.enqueue()

    def fail(_: object, token: UUID) -> NoReturn:
        failed.append(token)
        assert finish(shop.database, token, [], worker=WORKER).left is False
        raise RuntimeError(f"failure {len(failed)}")

    monkeypatch.setattr(module, "send_batch", fail)
    with pytest.raises(RuntimeError, match=r"^failure 1$"):
        drain(shop.runtime)
    assert len(failed) == MOST_FAILED
