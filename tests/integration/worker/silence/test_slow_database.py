"""While the database holds an email up, its server has not been asked yet: it is not to blame."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
import sqlalchemy as sa

from outbox.worker.batch import todo
from outbox.worker.batch.send_batch import send_batch
from tests.integration.worker.silence.silent_content import LEASE
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shops, addresses
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql")

SLOW = 0.3
BEATS = 5  # the last ones come when the email has been under way for more than SLOW seconds
DEADLINE = 60.0


def test_a_content_that_is_read_slowly_is_no_silence_of_the_server(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(todo, "SLOW", SLOW)
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_LEASE=LEASE)
    for address in addresses(3):
        shop.enqueue(address)
    [made] = shop.claim()
    moments = set[datetime]()

    def beats() -> int:
        """Return how many beats of the batch were seen; each shifts the end of its lease."""
        moments.update(row.expires_at for row in shop.rows(shop.tables.lease))
        return len(moments)

    with ThreadPoolExecutor(1) as pool:
        with shop.engine.begin() as person:
            person.execute(
                sa.text(f"LOCK TABLE {shop.tables.content.name} IN ACCESS EXCLUSIVE MODE")
            )
            sending = pool.submit(send_batch, shop.runtime, made.token)
            wait_until(lambda: beats() >= BEATS, DEADLINE, "enough beats, each of which looks")
        sending.result(DEADLINE)
    assert shop.statuses() == ["sent"] * 3
    assert not shop.rows(shop.tables.breaker), "nothing speaks against the server"
