"""A web transaction that stays open holds up no worker and no sweep."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from outbox.store.transitions.window import finish
from tests.support.shop.shop import WORKER, Shop, message, sent

Step = Callable[[Shop, UUID, list[int]], object]

STEPS: dict[str, Step] = {
    "open": lambda shop, token, ids: shop.open(token, *ids[:2]),
    "record": lambda shop, token, ids: shop.record(token, [sent(ids[0])], ids[2:4]),
    "finish": lambda shop, token, ids: finish(shop.database, token, [], worker=WORKER),
    "rescue": lambda shop, token, ids: shop.rescue(),
}


@pytest.mark.matrix
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("emails", [3, 40])
@pytest.mark.parametrize("step", STEPS)
def test_it_waits_for_no_email_that_is_not_committed(shop: Shop, step: str, emails: int) -> None:
    ids = [shop.enqueue().id for _ in range(emails)]
    made = shop.started()
    shop.open(made.token, *ids[:2])
    with shop.session() as session, ThreadPoolExecutor(1) as pool:
        for _ in range(5):
            shop.outbox.enqueue(message(), session=session)
        done = pool.submit(STEPS[step], shop, made.token, ids)
        try:
            done.result(timeout=30)
        finally:
            session.rollback()
