"""A person holds a row while its window ends: the email is sent once, all the same."""

from __future__ import annotations

from typing import Any

import pytest

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.worker.batch.next_window import NextWindow
from tests.integration.store.locks import PATIENCE, hold, in_time, no_waiting, swept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses, entry, sent

pytestmark = pytest.mark.databases("postgresql", "mariadb")

NOTHING_SAID = Reply(code=0)


def test_an_email_whose_row_was_locked_when_its_window_ended_is_not_opened_by_the_same_write(
    shop: Shop, workers: Shops
) -> None:
    """Else its row says that it waits while it leaves, and it is sent once more."""
    worker = workers.open()
    ids = [shop.enqueue(address).id for address in addresses(2)]
    made = worker.started()
    assert worker.open(made.token, *ids) == {*ids}
    back = entry(ids[1], Outcome(status=Status.CLAIMED, reply=NOTHING_SAID), Verdict.HALT)
    with shop.session() as session, no_waiting(worker):
        hold(shop, session, ids[1])
        in_time(lambda: worker.record(made.token, [sent(ids[0]), back]), session)
        assert [shop.status(i) for i in ids] == [Status.SENT, Status.SENDING]
    assert worker.record(made.token, [back], [ids[1]]) == frozenset()
    assert shop.status(ids[1]) is Status.CLAIMED
    assert worker.open(made.token, ids[1]) == {ids[1]}


@pytest.mark.long
def test_an_email_whose_row_is_locked_while_its_window_runs_out_of_time_is_sent_once(
    shop: Shop, workers: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(3)]
    motion = swept(workers, catcher, OUTBOX_WINDOW_SECONDS=1.0, OUTBOX_BATCH_SECONDS=900)
    now = [motion.shop.runtime.clock()]
    motion.shop.runtime.clock = lambda: now[0]
    cut = NextWindow.cut
    with shop.session() as session, no_waiting(motion.shop):

        def slowly(_: str) -> None:
            now[0] += 2.0
            catcher.reply_to_recipient = lambda _: None
            hold(shop, session, *ids[1:])

        def let_go(*given: Any, **named: Any) -> Any:
            window = cut(*given, **named)
            if now[0] > began:
                session.rollback()
            return window

        began, catcher.reply_to_recipient = now[0], slowly
        monkeypatch.setattr(NextWindow, "cut", let_go)
        in_time(motion.work, session)
    assert motion.shop.runtime.unrecorded.wait(PATIENCE)
    for _ in range(2):
        motion.beat()
    assert [shop.status(i) for i in ids] == [Status.SENT] * 3
    assert set(catcher.copies().values()) == {1}
    assert shop.rows(shop.tables.counter) == []
