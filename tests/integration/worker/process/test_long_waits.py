"""A worker's log tells what keeps statements waiting: a locked table, or a replica that is gone."""

from __future__ import annotations

import logging
from contextlib import ExitStack

import pytest

from outbox.store.control import beat
from outbox.worker.fleet import long_waits
from outbox.worker.fleet.long_waits import LongWaits
from outbox.worker.fleet.presence import Presence
from tests.integration.lost_replica import PATIENCE, primary
from tests.integration.table_locks import awaited, locked
from tests.integration.worker.process.life.test_presence import EVERY, Member, has_row
from tests.support.shop.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "outbox")
    monkeypatch.setattr(long_waits, "LEAST", 1.0)
    monkeypatch.setattr(long_waits, "EVERY", 0.0)


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
    locks = LongWaits(shop.database)
    for number in (1, 2):
        with locked(shop):
            locks.look()
            assert len(told(caplog)) == number - 1
            with awaited(shop, shop.enqueue, seconds=1.5):
                locks.look()
                locks.look()
                assert len(told(caplog)) == number
        locks.look()


@pytest.mark.long
def test_a_worker_lives_and_tells_while_commits_wait_for_a_replica(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its row and its marks only tell: they wait for no replica, from its start to its end."""
    with primary() as server:
        shop = server.shops.open()
        beat.note(shop.database)
        shop.later(beat.EVERY + 1)
        presence = Presence(shop.runtime, Member(), every=EVERY)
        with server.awaited(shop.enqueue):
            presence.start()
            seen = has_row(shop).seen_at
            wait_until(lambda: "commits wait for a synch" in caplog.text, PATIENCE, "the line")
            wait_until(lambda: has_row(shop).seen_at > seen, PATIENCE, "a renewal")
            beat.note(shop.database)
            presence.end()
            wait_until(lambda: has_row(shop).stopped_at is not None, PATIENCE, "its end")
            assert server.waiting() == 1
        assert [row.status for row in shop.rows(shop.tables.email)] == ["pending"]
    assert caplog.records[-1].outbox == {"event": "commits_wait"}  # type: ignore[attr-defined]
