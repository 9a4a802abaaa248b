"""`flask outbox watch` in a process of its own: signals, `nohup`, and an output that is full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.flask_ext.alarm.test_watch import script
from tests.support.servers.warm import Warm
from tests.support.shop.shop import Shops
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.one_database("postgresql"), pytest.mark.long]

ROOT = Path(__file__).parents[4]
PATIENCE = 60.0
WATCH = ["--app", "watched", "outbox", "watch", "--max-age", "0"]

APP = """
import os
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from outbox import Outbox

app = Flask(__name__)
app.config.update(SQLALCHEMY_DATABASE_URI=os.environ["DATABASE_URL"], MAIL_SERVER="127.0.0.1")
Outbox().init_app(app, db=SQLAlchemy(app))
"""

HANGS_UP = """
import signal

signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
"""As on a terminal, also if the tests themselves were started by `nohup`."""

ENDED_AGAIN = """
import signal
from outbox.flask_ext.alarm.verbs import Watching

watch_again = Watching.watch_again


def ended_again(self, health):
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGHUP)
    watch_again(self, health)


Watching.watch_again = ended_again
"""
"""As `timeout` does, which sends its signal to the process and to its group."""


STUCK = """
import signal
from outbox.flask_ext.alarm.verbs import Watching


def stands_still(self, health):
    open("stuck", "w").close()
    while True:
        signal.pause()


Watching.watch_again = stands_still
"""
"""As beside a database that does not answer."""


AT_THE_LOCK = """
import signal
import subprocess
import threading


class Lock:
    def __init__(self):
        self.lock = threading.Lock()

    def acquire(self, *options):
        is_taken = self.lock.acquire(*options)
        os.kill(os.getpid(), signal.SIGTERM)
        return is_taken

    def release(self):
        self.lock.release()

    def __enter__(self):
        return self.lock.__enter__()

    def __exit__(self, *error):
        self.lock.release()


class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._waitpid_lock = Lock()


subprocess.Popen = Popen
"""
"""The signal comes where `subprocess` has its lock, and is not yet in the block that frees it."""


def environment(shops: Shops) -> dict[str, str]:
    return {**os.environ, "DATABASE_URL": shops.url, "PYTHONPATH": str(ROOT)}


def started(shops: Shops, folder: Path, app: str, *command: str) -> Warm:
    """Start `flask outbox watch` of this app with a command."""
    (folder / "watched.py").write_text(app)
    return Warm(
        "flask",
        [*WATCH, *command],
        directory=folder,
        environment=environment(shops),
        log=folder / "log",
        ours=True,
    )


def test_a_further_signal_ends_what_stands_still(shops: Shops, tmp_path: Path) -> None:
    shops.open().enqueue()
    command = ["--", "sh", "-c", "kill -TERM $PPID; exec sleep 60"]
    process = started(shops, tmp_path, APP + STUCK, *command)
    wait_until((tmp_path / "stuck").exists, PATIENCE, "it to put in order")

    def has_ended() -> bool:
        os.kill(process.pid, signal.SIGTERM)
        return process.poll() is not None

    wait_until(has_ended, PATIENCE, "the process to end", pause=0.1)
    assert process.returncode == -signal.SIGTERM


def test_if_it_is_ended_where_subprocess_has_taken_its_lock_it_ends(
    shops: Shops, tmp_path: Path
) -> None:
    shops.open().enqueue()
    process = started(shops, tmp_path, APP + AT_THE_LOCK, "--", "sleep", "60")
    wait_until(lambda: process.poll() is not None, PATIENCE / 2, "watch to end")
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("app", [APP, APP + ENDED_AGAIN], ids=["once", "again"])
def test_if_it_is_ended_while_its_command_runs_the_next_watch_tells_again(
    shops: Shops, tmp_path: Path, number: signal.Signals, app: str
) -> None:
    shop = shops.open()
    shop.enqueue()
    command = ["--", "sh", "-c", f"kill -{int(number)} $PPID; exec sleep 60"]
    process = started(shops, tmp_path, app + HANGS_UP, *command)
    wait_until(lambda: process.poll() is not None, PATIENCE, "watch to end")
    assert process.returncode == 128 + number
    assert shop.outbox.watch(0) is not None


def watching(
    shops: Shops,
    folder: Path,
    *command: object,
    output: str = "/dev/null",
    before: Sequence[str] = (),
) -> int:
    """Run `flask outbox watch` as a shell does; return its exit status."""
    (folder / "watched.py").write_text(APP)
    words = [*before, sys.executable, "-m", "flask", *WATCH, *map(str, command)]
    with Path(output).open("w") as stdout:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environment(shops),
            stdout=stdout,
            timeout=PATIENCE,
            check=False,
        )
    return done.returncode


def test_nohup_holds(shops: Shops, tmp_path: Path) -> None:
    shop = shops.open()
    shop.enqueue()
    command = ["--", "sh", "-c", "kill -HUP $PPID"]
    assert watching(shops, tmp_path, *command, before=["nohup"]) == 0
    assert shop.outbox.watch(0) is None


@pytest.mark.parametrize("has_command", [True, False])
def test_if_it_cannot_print_the_command_tells_or_the_next_watch(
    shops: Shops, tmp_path: Path, has_command: bool
) -> None:
    shop, note = shops.open(), tmp_path / "note"
    shop.enqueue()
    command = script(note, 0) if has_command else []
    assert watching(shops, tmp_path, *command, output="/dev/full") != 0
    assert note.exists() is has_command
    assert (shop.outbox.watch(0) is None) is has_command


def test_if_its_output_is_closed_the_next_watch_tells(shops: Shops, tmp_path: Path) -> None:
    shop = shops.open()
    shop.enqueue()
    assert watching(shops, tmp_path, before=["sh", "-c", 'exec "$@" >&-', "sh"]) == 1
    assert shop.outbox.watch(0) is not None
