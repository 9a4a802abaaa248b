"""Runs the demo's processes under supervisord, and ends them in order within seconds.

supervisord alone would end one after the other, and wait in silence for each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from xmlrpc.client import Error as RPCError
from xmlrpc.client import ServerProxy

import psutil
from supervisor.xmlrpc import SupervisorTransport

ROOT = Path(__file__).resolve().parents[2]

FIRST = ("beat", "flower", "worker", "web")
"""They end first. The worker needs the SMTP server and the broker to the last. These two have
nothing to finish: they are killed with supervisord."""

PATIENCE = 3.5
"""Seconds that these get. The database needs the rest of 5 s."""

SAY_AFTER = 0.7
"""Seconds after which a person is told what the demo waits for."""

REASONS = {
    "worker": "it finishes the emails of its open window, and gives the rest back",
    "web": "it answers its last requests",
}

_GONE = frozenset({"STOPPED", "EXITED", "FATAL", "UNKNOWN"})
_FAILURES = (OSError, RPCError, HTTPException)  # supervisord is gone, or never came up


@dataclass(frozen=True, kw_only=True)
class Supervised:
    """A running supervisord."""

    process: subprocess.Popen[bytes]
    socket: Path

    def states(self) -> dict[str, str]:
        """Return the state of each process by its name; nothing while supervisord is away."""
        return {name: str(one["statename"]) for name, one in self._info().items()}

    def end(self, say: Callable[[str], object]) -> None:
        """End all processes; say what is waited for, and kill what stays."""
        for name in FIRST:
            with suppress(*_FAILURES):  # also where it does not run
                self._rpc().supervisor.stopProcess(name, False)
        self._await(say)
        _kill_session(self.process.pid)
        self.process.wait()

    def _await(self, say: Callable[[str], object]) -> None:
        began, told = time.monotonic(), list[str]()
        while left := self._left():
            waited = time.monotonic() - began
            if waited > PATIENCE:
                say(f"{' and '.join(left)} killed after {PATIENCE} s: nothing is lost")
                return
            if waited > SAY_AFTER and left != told:
                say(f"waiting for {'; '.join(map(_reason, left))}")
                told = left
            time.sleep(0.05)

    def _left(self) -> list[str]:
        """Return who has still something to finish."""
        found = self._info()
        return [name for name in FIRST if name in found and found[name]["statename"] not in _GONE]

    def _info(self) -> dict[str, dict[str, Any]]:
        """Return what supervisord knows of each process; nothing while it is away."""
        try:
            found: Any = self._rpc().supervisor.getAllProcessInfo()
        except _FAILURES:
            return {}
        return {str(one["name"]): dict(one) for one in found}

    def _rpc(self) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        return ServerProxy("http://127.0.0.1", transport=transport)


def _reason(name: str) -> str:
    return f"{name} ({REASONS[name]})" if name in REASONS else name


@contextmanager
def supervised(
    config: Path, socket: Path, environment: Mapping[str, str], say: Callable[[str], object]
) -> Iterator[Supervised]:
    """Run supervisord in a session of its own, so that Ctrl-C reaches only this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor.supervisord", "-c", config],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    running = Supervised(process=process, socket=socket)
    try:
        yield running
    finally:
        running.end(say)


def _kill_session(session: int) -> None:
    """Kill what outlived supervisord: after a worker was killed its pool has no parent."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)
