"""Servers end with the test run, also when SIGKILL ends it and no `finally` is run.

A tiny process of its own holds the read end of a pipe whose write end only the test run has. The
kernel closes that end however the run dies; then every process group and every directory still on
the leash is removed. This file is both sides: imported it is the run's, executed it is the holder.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

_GRACE = 3.0  # seconds from SIGTERM to SIGKILL
_lock = threading.Lock()
_holder: "subprocess.Popen[bytes] | None" = None


def hold(item: int | Path) -> None:
    """Put a process group or a directory on the leash."""
    _tell("hold", item)


def release(item: int | Path) -> None:
    """Take it off again: it is gone, and its name may be used anew."""
    _tell("release", item)


def _tell(word: str, item: int | Path) -> None:
    global _holder
    with _lock:
        if _holder is None:
            _holder = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
            atexit.register(_let_go)
        assert _holder.stdin is not None
        os.write(_holder.stdin.fileno(), f"{word} {item}\n".encode())


def _let_go() -> None:
    if _holder is not None and _holder.stdin is not None:
        _holder.stdin.close()
        _holder.wait()


def _main() -> None:
    held: set[str] = set()
    for line in sys.stdin:
        word, item = line.rstrip("\n").split(" ", 1)
        (held.add if word == "hold" else held.discard)(item)
    _end({int(item) for item in held if item.isdecimal()})
    for item in held:
        if not item.isdecimal():
            shutil.rmtree(item, ignore_errors=True)


def _end(groups: set[int]) -> None:
    _signal(groups, signal.SIGTERM)
    pause = threading.Event()
    deadline = time.monotonic() + _GRACE
    while _signal(groups, signal.SIGCONT) and time.monotonic() < deadline:
        pause.wait(0.05)
    _signal(groups, signal.SIGKILL)


def _signal(groups: set[int], number: signal.Signals) -> int:
    reached = 0
    for group in groups:
        try:
            os.killpg(group, number)
            reached += 1
        except (ProcessLookupError, PermissionError):
            continue
    return reached


if __name__ == "__main__":
    _main()
