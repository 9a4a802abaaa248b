"""A database that cannot keep what was told: that is told once, and so is its end."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox import InvalidMessage
from outbox.flask_ext.alarm import note as notes
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("postgresql")

UNKEPT = "the database cannot keep that this was told"


@contextmanager
def read_only(shop: Shop) -> Iterator[None]:
    """Have the database take no writes, as a provider does whose disk is almost full."""
    url = shop.engine.url
    admin = sa.create_engine(url, connect_args={"options": "-c default_transaction_read_only=off"})
    database, name = f"ALTER DATABASE {url.database}", "default_transaction_read_only"

    def run(statement: str) -> None:
        with admin.begin() as connection:
            connection.exec_driver_sql(statement)
        shop.engine.dispose()

    run(f"{database} SET {name} = on")
    try:
        yield
    finally:
        run(f"{database} RESET {name}")
        admin.dispose()


def watches(shop: Shop, times: int = 2, path: Path | None = None) -> list[bool | None]:
    """Return what so many calls tell: that all is well, that it is not, or nothing."""
    found = [shop.outbox.watch(note=path) for _ in range(times)]
    return [None if one is None else one.healthy for one in found]


def forget(shop: Shop) -> None:
    """Do what the end of a process does: its memory is lost."""
    notes._notes.pop(shop.app, None)


def test_a_process_tells_once_and_tells_the_end(shop: Shop) -> None:
    with read_only(shop):
        assert watches(shop) == [False, None]
    assert watches(shop) == [True, None]


def test_processes_that_end_keep_it_in_a_file(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "outbox.note"
    run = runner(shop)

    def watched() -> str:
        forget(shop)
        return str(run("watch", "--note", str(path)).output)

    assert (watched(), path.exists()) == ("", False)
    with read_only(shop):
        told = watched()
        assert told.startswith("outbox: unhealthy\n")
        assert UNKEPT not in told
        assert watched() == ""
    assert (watched(), watched()) == ("outbox: healthy\n", "")
    assert not path.exists()


def test_without_a_file_each_process_tells_and_says_that_none_tells_the_end(shop: Shop) -> None:
    run = runner(shop)

    def watched() -> str:
        forget(shop)
        return str(run("watch").output)

    with read_only(shop):
        assert [UNKEPT in watched() for _ in range(2)] == [True, True]
    assert watched() == ""


def test_a_failure_that_lasts_is_told_once_more_when_it_can_be_kept(shop: Shop) -> None:
    shop.enqueue()
    shop.later(301)
    with read_only(shop):
        assert watches(shop) == [False, None]
    assert watches(shop) == [False, None]
    shop.outbox.cancel_now(1)
    assert watches(shop) == [True, None]


def test_what_nobody_could_be_told_is_told_again(shop: Shop, tmp_path: Path) -> None:
    run, path = runner(shop), tmp_path / "outbox.note"
    words = ("watch", "--note", str(path), "--", "/no/such/program")
    with read_only(shop):
        for _ in range(2):
            failed = run(*words, code=1).output
            assert "the next watch tells again" in failed
            assert "nobody was told" not in failed
        assert watches(shop, path=path) == [False, None]
    assert "outbox: healthy" in run(*words, code=1).output
    assert watches(shop, path=path) == [True, None]


def test_a_file_that_cannot_be_written_holds_up_no_alarm(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "nowhere" / "outbox.note"
    with read_only(shop), caplog.at_level(logging.ERROR, "outbox"):
        assert watches(shop, path=path) == [False, False]
    assert "outbox.note, cannot be written (No such file or directory)" in caplog.text
    path.mkdir(parents=True)
    with caplog.at_level(logging.ERROR, "outbox"):
        assert watches(shop, path=path) == [None, None]
    assert "cannot be removed (it is no regular file)" in caplog.text


@pytest.mark.parametrize("kind", ["file", "link", "fifo"])
def test_what_is_somebody_elses_is_no_note_and_stays_as_it_was(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    path = tmp_path / "not.a.note"
    if kind == "file":
        path.write_text("precious")
    elif kind == "link":
        path.symlink_to(tmp_path / "gone")
    else:
        os.mkfifo(path)
    before = path.lstat()
    with read_only(shop), caplog.at_level(logging.ERROR, "outbox"):
        assert watches(shop, path=path) == [False, False]
    assert "not.a.note, cannot be written" in caplog.text
    assert watches(shop, path=path) == [None, None]
    after = path.lstat()
    assert (after.st_ino, after.st_size, after.st_mode) == (
        before.st_ino,
        before.st_size,
        before.st_mode,
    )


def test_an_empty_file_that_a_person_made_becomes_the_note(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "outbox.note"
    path.touch()
    assert watches(shop, path=path) == [None, None]
    with read_only(shop):
        assert watches(shop, path=path) == [False, None]
    assert watches(shop, path=path) == [True, None]


def test_a_variable_that_nobody_has_set_is_no_name_of_a_note(shop: Shop) -> None:
    with read_only(shop):
        assert "is empty: name a file" in runner(shop)("watch", "--note", "", code=2).output
        with pytest.raises(InvalidMessage, match="note"):
            shop.outbox.watch(note="")


def test_a_note_takes_no_room_on_the_disk(tmp_path: Path) -> None:
    note = notes.Note(tmp_path / "outbox.note")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # no octet more goes into any file
    try:
        assert [note.make(), note.make()] == [True, False]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [note.remove(), note.remove()] == [True, False]
