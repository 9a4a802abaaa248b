"""A start that is asked for again takes no lease with which an earlier task has sent."""

from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy.orm import Session

from outbox import Status
from outbox.domain.fleet import ProcessId
from outbox.store.transitions.start import start
from outbox.store.transitions.window import finish
from tests.integration.store.locks import hold
from tests.support.shop.shop import LEASE, WORKER, Shop

pytestmark = pytest.mark.each_database


@pytest.mark.databases("postgresql", "mariadb")  # a row can be locked there
def test_a_lease_that_a_batch_has_left_is_not_started_by_a_task_that_came_twice(shop: Shop) -> None:
    """The reply to that end's commit may be lost: repeated, it would take the email back."""
    email = shop.enqueue()
    made = shop.started()
    with Session(shop.engine) as session:
        hold(shop, session, email.id)
        finish(shop.database, made.token, [], worker=WORKER)
    assert shop.status(email.id) is Status.CLAIMED
    assert shop.start(made.token) is None
    finish(shop.database, made.token, [], worker=WORKER)
    assert (shop.status(email.id), shop.count(shop.tables.lease)) == (Status.PENDING, 0)


def test_a_claim_that_has_run_out_may_still_be_started(shop: Shop) -> None:
    shop.enqueue()
    (made,) = shop.claim()
    shop.later(LEASE + 1)
    assert shop.start(made.token) is not None


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
