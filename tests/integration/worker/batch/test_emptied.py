"""A batch that has lost its emails before it began asks no server, and tells nothing of one."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from outbox.domain.delivery.breaker_timing import OPEN_FIRST, BreakerState, Cause
from outbox.store.control import circuit_breaker
from outbox.store.control.blame import suspicion
from outbox.store.records import ClaimedEmail
from outbox.worker.batch.batch_end import BatchEnd
from outbox.worker.batch.next_window import NextWindow
from outbox.worker.batch.send_batch import send_batch
from tests.support.servers.smtp.stateful import StatefulServer
from tests.support.shop.shop import Shop, Shops, addresses
from tests.support.shop.steps.motion import Motion

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
        assert send_batch(shop.runtime, made.token)[:2] == (BatchEnd.DONE, 0)
    assert server.dialogues == []
    assert [row.server for row in shop.rows(shop.tables.breaker)] == [name]
    assert shop.status(email.id) == ("cancelled" if is_withdrawn else "pending")
    assert shop.rows(shop.tables.lease) == []


@pytest.mark.matrix
@pytest.mark.parametrize("is_withdrawn", [False, True], ids=["by the list", "by a withdrawal"])
def test_a_probe_that_has_lost_its_email_tells_nothing_and_another_follows(
    shops: Shops, is_withdrawn: bool
) -> None:
    """The server opens sessions, and halts every email: a session would close its breaker."""
    with StatefulServer() as server:
        motion = Motion(shop=shops.open(MAIL_PORT=server.port))
        shop = motion.shop
        readers = addresses(2)
        emails = [shop.enqueue(reader) for reader in readers]
        name, cause = shop.runtime.servers[0].name, Cause.EMAILS
        circuit_breaker.trip(shop.database, name, cause=cause, reason="mail: 421 no")
        shop.later(OPEN_FIRST + 0.1)
        (probe,) = motion.sweep()
        lost, left = sorted(emails, key=lambda email: shop.email_row(email.id).token != probe.token)
        if is_withdrawn:
            withdraw(shop, lost.id)
        else:
            shop.outbox.suppress(readers[emails.index(lost)])
        assert motion.work(), "another sweep is worth it"
        assert server.dialogues == []
        (row,) = shop.rows(shop.tables.breaker)
        assert (row.state, row.failures, row.prober) == (BreakerState.OPEN, 1, None)
        (again,) = motion.sweep()
        assert shop.email_row(left.id).token == again.token
        motion.work()
    assert shop.status(lost.id) == ("cancelled" if is_withdrawn else "suppressed")
    assert shop.status(left.id) == "sent"
    assert shop.rows(shop.tables.breaker) == []


@pytest.mark.long
def test_a_probe_that_loses_its_email_while_the_session_opens_is_followed_by_another(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = NextWindow.cut

    def cut_and_lose(self: NextWindow, left: deque[ClaimedEmail], **options: Any) -> Any:
        window = cut(self, left, **options)
        withdraw(shop, email.id)
        return window

    with StatefulServer() as server:
        motion = Motion(shop=shops.open(MAIL_PORT=server.port))
        shop = motion.shop
        name, cause = shop.runtime.servers[0].name, Cause.EMAILS
        email = shop.enqueue()
        circuit_breaker.trip(shop.database, name, cause=cause, reason="mail: 421 no")
        shop.later(OPEN_FIRST + 0.1)
        motion.sweep()
        monkeypatch.setattr(NextWindow, "cut", cut_and_lose)
        motion.work()
        (row,) = shop.rows(shop.tables.breaker)
        assert (row.state, row.failures, row.prober) == (BreakerState.OPEN, 1, None)
    assert shop.status(email.id) == "cancelled"
