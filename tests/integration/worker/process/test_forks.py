"""A child that is forked while its parent keeps its row on SQLite can use the database, too."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import event

from outbox.worker.fleet import forks
from outbox.worker.fleet.presence import Presence
from tests.integration.worker.process.test_presence import Member, the_row
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.databases("sqlite")

PATIENCE = 20.0


def forked(shop: Shop) -> int:
    """Return the exit code of a child that writes: 0 if it could."""
    if not (child := os.fork()):
        code = 1
        try:
            shop.runtime.after_fork()  # as each child of a pool does
            shop.database.patience = 0.2
            shop.enqueue()
            code = 0
        finally:
            os._exit(code)
    return child


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_that_is_forked_within_a_beat_can_write(shop: Shop) -> None:
    presence = Presence(shop.runtime, Member(), every=3600.0)
    writes, is_forked = threading.Event(), threading.Event()

    @event.listens_for(presence._engine, "commit")
    def hold(_: Any) -> None:
        writes.set()
        is_forked.wait(0.5)  # a fork that waits for this beat cannot be over

    with ExitStack() as ends:
        ends.callback(presence.end)
        presence.start()
        assert writes.wait(PATIENCE)
        child = forked(shop)
        is_forked.set()
    assert code_of(child) == 0
    assert the_row(shop) is not None
    assert shop.statuses() == ["pending"]


def test_a_thread_that_hangs_holds_no_fork_up_for_long(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "LONGEST", 0.1)
    within, is_over = threading.Event(), threading.Event()

    def hang() -> None:
        with forks.without_forks():
            within.set()
            is_over.wait(PATIENCE)

    thread = threading.Thread(target=hang)
    thread.start()
    assert within.wait(PATIENCE)
    try:
        assert [code_of(forked(shop)), code_of(forked(shop))] == [0, 0]
        assert thread.is_alive()
    finally:
        is_over.set()
        thread.join()
    with forks.without_forks():
        pass
