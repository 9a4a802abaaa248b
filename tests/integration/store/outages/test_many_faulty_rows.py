"""The first rows of a batch all answer with an error of the app's own: the others are not kept."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from outbox import Status
from outbox.store.connection.one_by_one import MOST
from outbox.store.transitions.window import finish
from tests.integration.store.transitions.test_rescue import judge
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, WORKER, Shop, addresses

pytestmark = pytest.mark.databases("postgresql", "mariadb")

CODES = {"postgresql": "UE001", "mariadb": "31001"}
PENDING, CLAIMED = Status.PENDING, Status.CLAIMED
FAULTY, WELL = MOST + 5, 4


@pytest.fixture
def ids(shop: Shop) -> list[int]:
    return [shop.enqueue(address).id for address in addresses(FAULTY + WELL)]


def test_the_others_are_rescued(shop: Shop, ids: list[int]) -> None:
    code = CODES[shop.engine.dialect.name]
    shop.started()
    with refusing(shop.engine, "outbox_email", f"OLD.id < {ids[FAULTY]}", code=code):
        shop.rescue()
        assert [shop.status(i) for i in ids] == [CLAIMED] * FAULTY + [PENDING] * WELL
    assert {shop.mail(i).crashes for i in ids[:FAULTY]} == {0}
    assert {shop.mail(i).crashes for i in ids[FAULTY:]} == {1}


def test_the_others_are_given_back_at_the_end_of_a_batch(shop: Shop, ids: list[int]) -> None:
    code = CODES[shop.engine.dialect.name]
    made = shop.started()
    with refusing(shop.engine, "outbox_email", f"OLD.id < {ids[FAULTY]}", code=code):
        finish(shop.database, made.token, [], worker=WORKER)
    assert [shop.status(i) for i in ids] == [CLAIMED] * FAULTY + [PENDING] * WELL


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
