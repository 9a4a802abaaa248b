"""An exception in the middle of a window, whatever it is, turns no known result into a doubt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outbox.domain.delivery.transaction import Envelope, Transaction
from outbox.smtp.connection import Connection
from outbox.worker.batch.send_batch import send_batch
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, addresses

pytestmark = pytest.mark.each_database


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, SystemExit])
def test_what_was_sent_before_an_exception_is_recorded_and_the_rest_is_no_doubt(
    sending: Shop,
    catcher: Catcher,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    for address in addresses(4):
        sending.enqueue(address)
    send = Connection.send

    def fail_at_the_third(
        self: Connection,
        envelope: Envelope,
        content: bytes,
        fence: Callable[[], bool],
        following: Envelope | None,
    ) -> Transaction:
        if len(catcher.emails) == 2:
            raise error
        return send(self, envelope, content, fence, following)

    # A double: no real server makes this process raise, and Celery's cold shutdown does.
    monkeypatch.setattr(Connection, "send", fail_at_the_third)
    (made,) = sending.claim()
    with pytest.raises(error):
        send_batch(sending.runtime, made.token)
    assert sending.statuses() == ["sent", "sent", "pending", "pending"]
    assert len(catcher.emails) == 2
