"""A worker's log tells who has locked a whole table: each statement only waits for it."""

from __future__ import annotations

import logging
from contextlib import ExitStack

import pytest

from outbox.worker.fleet import table_locks
from outbox.worker.fleet.presence import Presence
from outbox.worker.fleet.table_locks import TableLocks
from tests.integration.table_locks import awaited, locked
from tests.integration.worker.process.test_presence import EVERY, Member
from tests.support.shop.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_database("postgresql")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "outbox")
    monkeypatch.setattr(table_locks, "LEAST", 1.0)
    monkeypatch.setattr(table_locks, "EVERY", 0.0)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "has locked" in one.getMessage()]


def test_a_worker_tells_once_while_statements_wait(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as ends:
        presence = Presence(shop.runtime, Member(), every=EVERY)
        presence.start()
        ends.callback(presence.end)
        with locked(shop) as who, awaited(shop, shop.enqueue):
            wait_until(lambda: told(caplog), 30, "the line")
    [line] = told(caplog)
    assert line.startswith(f"outbox: {who}, and statements have waited for ")
    assert caplog.records[-1].outbox == {"event": "table_locked"}  # type: ignore[attr-defined]


def test_a_lock_for_which_nobody_waits_is_not_told_and_the_next_one_is(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    locks = TableLocks(shop.database)
    for number in (1, 2):
        with locked(shop):
            locks.look()
            assert len(told(caplog)) == number - 1
            with awaited(shop, shop.enqueue, seconds=1.5):
                locks.look()
                locks.look()
                assert len(told(caplog)) == number
        locks.look()
