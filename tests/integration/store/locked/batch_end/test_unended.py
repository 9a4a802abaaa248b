"""What a batch leaves is given back, although another transaction held its lease at its end."""

from __future__ import annotations

from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from outbox import Status
from outbox.store.connection import shared_rows
from outbox.store.connection.database import Database
from outbox.store.records import WriteResult
from outbox.worker.process import unended
from tests.integration.store.locks import PATIENCE, SENT, UNTOUCHED, hold, lock_lease
from tests.support.shop.shop import Shop, sent
from tests.support.shop.steps.motion import standing
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql", "mariadb")


def test_what_is_left_goes_back_uncharged_also_behind_a_result_that_waited(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_rows, "PATIENCE", 0.0)
    first, second = shop.enqueue().id, shop.enqueue().id
    token, unrecorded = shop.sending(first).token, shop.runtime.unrecorded
    with shop.session() as vanished_host:
        lock_lease(shop, vanished_host, token)
        hold(shop, vanished_host, second)
        with shop.session() as person:
            hold(shop, person, first)
            unrecorded.keep(token, [sent(first)])
        wait_until(lambda: shop.status(first) is Status.SENT, PATIENCE, "the result")
        assert not unrecorded.wait(1.0), "it is not done before the host's transaction has ended"
    assert unrecorded.wait(PATIENCE)
    shop.rescue()
    assert standing(shop) == {SENT: 1, UNTOUCHED: 1}
    assert shop.count(shop.tables.lease) == 0


def test_a_process_that_ends_waits_for_the_ends_of_its_batches(shop: Shop) -> None:
    email = shop.enqueue().id
    token, ends = shop.started().token, shop.runtime.unended
    with shop.session() as session:
        lock_lease(shop, session, token)
        hold(shop, session, email)
        ends.keep(token)
        assert not ends.wait(0.0)
    shop.runtime.wait_for_writes()
    assert ends.wait(0.0)
    shop.rescue()
    assert standing(shop) == {UNTOUCHED: 1}
    assert shop.count(shop.tables.lease) == 0


def test_a_batch_whose_end_the_database_refuses_is_left_to_the_rescue(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.enqueue()
    tries = list[UUID]()

    def refused(_: Database, token: UUID, *__: object, **___: object) -> WriteResult:
        tries.append(token)
        raise IntegrityError("UPDATE", {}, Exception("CHECK"))

    monkeypatch.setattr(unended, "finish", refused)
    token = shop.started().token
    shop.runtime.unended.keep(token)
    assert shop.runtime.unended.wait(PATIENCE)
    assert tries == [token]
