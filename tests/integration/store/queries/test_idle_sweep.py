"""What a sweep asks where nothing is due."""

from __future__ import annotations

from datetime import timedelta

import pytest

from outbox.worker.sweep import sweep
from tests.integration.store.queries.generic_plans import statements
from tests.support.shop.shop import START, Shop, sent

pytestmark = pytest.mark.each_database

_BEGIN = ("PRAGMA", "BEGIN", "ROLLBACK")


def test_a_sweep_that_finds_nothing_is_one_statement(shop: Shop) -> None:
    shop.enqueue(send_at=START + timedelta(days=36_500))
    done = shop.enqueue()
    made = shop.sending(done.id)
    shop.record(made.token, [sent(done.id)])
    sweep(shop.runtime, lambda _: None)  # opens the connection
    claimed: list[int] = []
    asked = statements(shop, lambda _: claimed.append(sweep(shop.runtime, lambda _: None)))
    assert claimed == [0]
    assert len([each for each in asked if not each.startswith(_BEGIN)]) == 1
