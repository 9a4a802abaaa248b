"""A start that is asked for again takes no lease with which an earlier task has sent."""

from __future__ import annotations

from functools import partial

import pytest

from outbox.domain.fleet import ProcessId
from outbox.store.transitions.start import start
from tests.support.shop.shop import LEASE, WORKER, Shop

pytestmark = pytest.mark.each_database


def test_a_lease_whose_window_was_open_is_not_started_again(shop: Shop) -> None:
    """Its token came twice: an earlier task's result may wait for a row that is locked."""
    email = shop.enqueue()
    (made,) = shop.claim()
    process = ProcessId("boot", 7, 1)
    begin = partial(
        start, shop.database, made.token, lease_seconds=LEASE, worker=WORKER, process=process
    )
    assert begin() is not None
    assert begin(again=True) is not None, "the reply to its commit may have been lost"
    assert shop.open(made.token, email.id) == {email.id}
    before = shop.rows(shop.tables.lease)
    assert begin(again=True) is None, "it would be sent a second time"
    assert shop.rows(shop.tables.lease) == before
