"""A child that is forked while its parent uses a SQLite database can use the database, too.

A fork waits for the blocks of other threads, however many: for each, not for long, not for its own.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import event

from outbox.worker import forks
from outbox.worker.fleet.presence import Presence
from tests.integration.worker.process.life.test_presence import Member, the_row
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


@pytest.mark.long
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


def test_threads_are_in_such_blocks_side_by_side_and_a_fork_waits_for_all(shop: Shop) -> None:
    within, over, ended = threading.Barrier(3), threading.Event(), list[int]()

    def use(number: int) -> None:
        with forks.without_forks():
            within.wait(PATIENCE)
            over.wait(0.2 * number)  # it is set behind the fork, which waits for this
            ended.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    within.wait(PATIENCE)
    child = forked(shop)
    assert ended == [1, 2]
    over.set()
    for thread in threads:
        thread.join()
    assert code_of(child) == 0


def test_a_fork_within_a_block_waits_for_nothing_and_its_child_leaves_the_block() -> None:
    child, code, began = -1, 1, monotonic()
    try:
        with forks.without_forks():
            child = os.fork()
        with forks.without_forks():
            code = 0
    finally:
        if not child:
            os._exit(code)
    assert code_of(child) == 0
    assert monotonic() - began < forks.LONGEST


_GREENLETS = """
import gevent
from gevent import monkey
{patch_first}
import os
from outbox.worker.forks import LONGEST, without_forks
{patch_last}
from time import monotonic
from gevent.event import Event

def use():
    with without_forks():
        within.set()
        over.wait()

within, over = Event(), Event()
using = gevent.spawn(use)
within.wait()
switched = gevent.spawn(over.set)  # the first that runs, as soon as any greenlet waits
began = monotonic()
if not (child := os.fork()):
    os._exit(0)
print(monotonic() - began < LONGEST, over.is_set())
monkey.get_original("os", "waitpid")(child, 0)  # gevent's own has hung where the child ends early
over.set()
using.join()
"""


@pytest.mark.long
@pytest.mark.parametrize("place", ["patch_first", "patch_last"])
def test_a_fork_waits_for_no_greenlet_and_lets_none_run(place: str) -> None:
    pytest.importorskip("gevent", reason="the oldest packages are tried without it")
    places = {"patch_first": "", "patch_last": "", place: "monkey.patch_all()"}
    code = _GREENLETS.format(**places)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("True False\n", 0), done.stderr
