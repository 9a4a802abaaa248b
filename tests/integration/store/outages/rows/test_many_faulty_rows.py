"""The first rows of a batch all answer with an error of the app's own: the others are not kept."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from outbox import Priority, Status
from outbox.store.connection.one_by_one import MOST
from outbox.store.transitions import claim_apart
from outbox.store.transitions.window import finish
from outbox.worker.sweep import sweep
from tests.integration.store.transitions.lease.test_rescue import judge
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, WORKER, Shop, Shops, addresses
from tests.support.shop.steps.motion import write

pytestmark = pytest.mark.each_database

CODES = {"sqlite": "json('{')", "postgresql": "UE001", "mariadb": "31001"}
PENDING, CLAIMED = Status.PENDING, Status.CLAIMED
FAULTY, WELL = MOST + 5, 4


@pytest.fixture
def ids(shop: Shop) -> list[int]:
    return [shop.enqueue(address).id for address in addresses(FAULTY + WELL)]


@pytest.mark.long
def test_the_others_are_rescued(shop: Shop, ids: list[int]) -> None:
    code = CODES[shop.engine.dialect.name]
    shop.started()
    with refusing(shop.engine, "outbox_email", f"OLD.id < {ids[FAULTY]}", code=code):
        shop.rescue()
        assert [shop.status(i) for i in ids] == [CLAIMED] * FAULTY + [PENDING] * WELL
    assert {shop.email_row(i).crashes for i in ids[:FAULTY]} == {0}
    assert {shop.email_row(i).crashes for i in ids[FAULTY:]} == {1}


@pytest.mark.long
def test_the_others_are_given_back_at_the_end_of_a_batch(shop: Shop, ids: list[int]) -> None:
    code = CODES[shop.engine.dialect.name]
    made = shop.started()
    with refusing(shop.engine, "outbox_email", f"OLD.id < {ids[FAULTY]}", code=code):
        finish(shop.database, made.token, [], worker=WORKER)
    assert [shop.status(i) for i in ids] == [CLAIMED] * FAULTY + [PENDING] * WELL


@pytest.mark.long
def test_a_lease_of_which_no_row_passes_is_judged_again_one_lease_later(
    shop: Shop, ids: list[int]
) -> None:
    code = CODES[shop.engine.dialect.name]
    shop.started()
    with refusing(shop.engine, "outbox_email", f"OLD.id <= {ids[-1]}", code=code):
        with pytest.raises(DBAPIError):
            shop.rescue()
        assert judge(shop) == 0, "it is put off"
    shop.later(LEASE + 1)
    assert judge(shop) == 1
    assert [shop.status(i) for i in ids] == [PENDING] * len(ids)


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("slots", [1, 8])
def test_a_lane_of_which_no_email_can_be_claimed_keeps_no_other(
    shops: Shops, slots: int, caplog: pytest.LogCaptureFixture
) -> None:
    shop = shops.open(OUTBOX_SLOTS=slots)
    faulty = write(shop, claim_apart.MOST + 10, priority=Priority.URGENT)
    others = [shop.enqueue(priority=priority) for priority in (Priority.NORMAL, Priority.BULK)]
    code = CODES[shop.engine.dialect.name]
    with refusing(shop.engine, "outbox_email", f"OLD.id <= {faulty[-1]}", code=code):
        assert sweep(shop.runtime, lambda _: None) == min(slots, len(others))
        assert shop.status(others[0].id) is CLAIMED
        assert "could not" in caplog.text
    assert {shop.status(i) for i in faulty} == {PENDING}
    tokens = {shop.email_row(email.id).token for email in others} - {None}
    assert tokens == {lease.token for lease in shop.rows(shop.tables.lease)}


@pytest.mark.long
def test_a_sweep_that_can_claim_no_email_of_any_lane_says_so(shop: Shop) -> None:
    write(shop, claim_apart.MOST + 10)
    code = CODES[shop.engine.dialect.name]
    with refusing(shop.engine, "outbox_email", "1 = 1", code=code), pytest.raises(DBAPIError):
        sweep(shop.runtime, lambda _: None)
    assert sweep(shop.runtime, lambda _: None) == claim_apart.MOST + 10
