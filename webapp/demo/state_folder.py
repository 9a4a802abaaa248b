"""The demo's folder: only its owner may enter it, one demo at a time uses it, and each begins anew.

Whatever the demo listens to as a file is in here: Redis, MariaDB and supervisord. So nobody else on
the host can reach it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import psutil

LOCK = "demo.lock"
CONFIG = "supervisord.conf"
_OLD = frozenset({CONFIG, "log", "inbox"})
"""What is in the folder of a demo from before there was a lock."""

_SERVERS = ("supervisord.pid", "mariadb/pid")
"""The files with the process ids of those who outlive a demo that is killed with SIGKILL."""

LONGEST = 80
"""Octets of a folder's path in which the name of each socket still fits: Linux allows 107."""


class Refused(Exception):
    """The demo cannot run here. The text is one line that says why, and what to do."""


@contextmanager
def own_folder(state: Path) -> Iterator[None]:
    """Empty the folder, and hold it for one demo; raise Refused where that is not possible."""
    with _lock_file(state) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"A demo runs in {state} already. Stop it, or give another --state."
            raise Refused(text) from None
        if left := _left_behind(state):
            raise Refused(f"A demo in {state} was killed. End what it has left: kill {left}")
        _empty(state)
        (state / "log").mkdir()
        yield


def _lock_file(state: Path) -> TextIO:
    """Make the folder, and return the open file that its demo locks."""
    try:
        _refuse_foreign(state)
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        state.chmod(0o700)
        return (state / LOCK).open("a")
    except OSError as error:
        text = f"{state} cannot be used: {error.strerror}. Give another --state."
        raise Refused(text) from None


def _refuse_foreign(state: Path) -> None:
    """Refuse a folder that is not ours to empty."""
    if not state.exists():
        return
    if not state.is_dir() or state.stat().st_uid != os.geteuid():
        raise Refused(f"{state} is not a folder of yours. Give another --state.")
    names = set(os.listdir(state))
    if names and LOCK not in names and not names >= _OLD:
        raise Refused(f"{state} has files that are not a demo's. Give an empty or a new --state.")


def _left_behind(state: Path) -> str:
    """Return the ids of the servers that still use this folder, or nothing."""
    found = []
    for name in _SERVERS:
        with suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(int((state / name).read_text()))
            if any(str(state) in word for word in process.cmdline()):
                found.append(str(process.pid))
    return " ".join(found)


def _empty(state: Path) -> None:
    for entry in state.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


@contextmanager
def socket_folder(state: Path) -> Iterator[Path]:
    """Provide the folder for sockets: the state's, or a private one where its path is too long."""
    if len(os.fsencode(state)) <= LONGEST:
        yield state
        return
    with tempfile.TemporaryDirectory(prefix="outbox-demo-") as folder:  # made with mode 0700
        yield Path(folder)


@contextmanager
def starting_alone(stop: threading.Event) -> Iterator[None]:
    """Let the demos of one user start one after the other: two at once would choose the same ports.

    The file is in a folder that all users share. One that is not ours, or a link, is not used: the
    demo then starts without waiting for others.
    """
    descriptor = _own_file(Path(tempfile.gettempdir()) / f"outbox-demo-{os.getuid()}.lock")
    if descriptor is None:
        yield
        return
    try:
        while not stop.is_set():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stop.wait(0.1)
            else:
                break
        yield
    finally:
        os.close(descriptor)


def _own_file(path: Path) -> int | None:
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError:
        return None
    if os.fstat(descriptor).st_uid == os.getuid():
        return descriptor
    os.close(descriptor)
    return None
