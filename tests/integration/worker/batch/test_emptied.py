"""A batch that has lost its emails before it began asks no server, and tells nothing of one."""

from __future__ import annotations

import pytest

from outbox.store.control import suspicion
from outbox.worker.batch.batch_end import BatchEnd
from outbox.worker.batch.send_batch import send_batch
from tests.support.servers.smtp.stateful import StatefulServer
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database


def withdraw(shop: Shop, email_id: int) -> None:
    with shop.session() as session:
        assert shop.outbox.cancel(id=email_id, session=session) == 1
        session.commit()


@pytest.mark.parametrize("is_withdrawn", [False, True], ids=["to another lane", "by a withdrawal"])
def test_it_opens_no_session_and_a_suspicion_stays(shops: Shops, is_withdrawn: bool) -> None:
    before = shops.open()
    email = before.enqueue("b@gmail.com")
    with StatefulServer() as server:
        rates = {} if is_withdrawn else {"gmail.com": "1/h"}
        shop = shops.open(MAIL_PORT=server.port, OUTBOX_DOMAIN_RATES=rates)
        name = shop.runtime.servers[0].name
        suspicion.suspect(shop.database, name, email_id=email.id, reason="mail: 421 no")
        (made,) = shop.claim()
        if is_withdrawn:
            withdraw(shop, email.id)
        assert send_batch(shop.runtime, made.token) == (BatchEnd.DONE, 0)
    assert server.dialogues == []
    assert [row.server for row in shop.rows(shop.tables.breaker)] == [name]
    assert shop.status(email.id) == ("cancelled" if is_withdrawn else "pending")
    assert shop.rows(shop.tables.lease) == []
