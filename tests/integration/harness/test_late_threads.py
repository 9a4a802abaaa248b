"""A thread that outlives its test fails, and touches nothing of the next one."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.integration.store.locks import hold, lock_lease
from tests.support.shop import shop as shop_module
from tests.support.shop.shared_tables import Late
from tests.support.shop.shop import Shops


@pytest.mark.one_database("sqlite")
def test_the_database_of_a_test_that_is_over_is_nobodys(database_url: str) -> None:
    with closing(Shops(url=database_url)) as before:
        old = before.open()
        old.enqueue()
        database = old.database
    with closing(Shops(url=database_url, shared=before.shared)) as shops:
        shop = shops.open()
        assert shop.database._built is database._built, "nothing is built twice"
        shop.later(5.0)
        for late in (database, old.runtime.database):
            with pytest.raises(Late):
                late.read(lambda connection: connection)
        (made,) = shop.claim()
        assert shop.start(made.token) is not None


@pytest.mark.one_database("postgresql")
def test_a_test_that_leaves_a_batch_without_its_end_fails(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shops = Shops(url=database_url)
    shop = shops.open()
    email = shop.enqueue().id
    token = shop.started().token
    with monkeypatch.context() as patch, shop.session() as session:
        patch.setattr(shop_module, "GRACE", 0.0)
        lock_lease(shop, session, token)
        hold(shop, session, email)
        shop.runtime.unended.keep(token)
        with pytest.raises(AssertionError, match="a batch's end"):
            shops.close()
    shops.close()
