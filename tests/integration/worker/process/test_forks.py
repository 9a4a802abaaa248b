"""A child that is forked while its parent uses a SQLite database can use the database, too."""

from __future__ import annotations

import os
import sqlite3
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


def test_what_a_child_has_written_outlives_its_parent_and_who_comes_then(shop: Shop) -> None:
    """Whoever closes a file that nobody else has locked deletes its log, to which a child writes.

    This process is both. It ends all that the parent had open before it comes back.
    """
    file = shop.engine.url.database
    assert file is not None
    with shop.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar() == "wal"
    shop.enqueue()
    shop.runtime.before_forks()
    (written, writes), (over, ends) = os.pipe(), os.pipe()
    if not (child := os.fork()):
        try:
            shop.runtime.after_fork()
            shop.enqueue()
            os.write(writes, b"1")
            os.read(over, 1)
            shop.enqueue()
        finally:
            os._exit(0)
    try:
        assert os.read(written, 1)
        shop.engine.dispose()
        sqlite3.connect(file).execute("SELECT count(*) FROM outbox_email").connection.close()
    finally:
        os.write(ends, b"1")
        assert code_of(child) == 0
    assert shop.statuses() == ["pending"] * 3


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
