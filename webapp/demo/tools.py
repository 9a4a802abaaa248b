"""The demo's commands, as small scripts in its folder: they carry the demo's environment.

They first forget what a person has set for another outbox.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from .environment import UNSET
from .programs import Sockets

ROOT = Path(__file__).resolve().parents[2]


def write_tools(state: Path, sockets: Sockets, environment: Mapping[str, str]) -> None:
    """Write `flask`, `supervisorctl` and `empty-redis` into the folder; only its owner may read."""
    flush = f"import redis; redis.Redis(unix_socket_path={str(sockets.redis)!r}).flushall()"
    config = str(state / "supervisord.conf")
    _write(state / "flask", ["flask", "--app", "webapp"], environment)
    _write(state / "supervisorctl", ["supervisor.supervisorctl", "-c", config], {})
    (state / "empty-redis").write_text(_script({}, [sys.executable, "-c", flush]))
    (state / "empty-redis").chmod(0o700)


def _write(path: Path, module: list[str], environment: Mapping[str, str]) -> None:
    path.touch(mode=0o700)  # it has the demo's secret key
    path.write_text(_script(environment, [sys.executable, "-m", *module]))


def _script(environment: Mapping[str, str], command: list[str]) -> str:
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines = ["#!/bin/sh", UNSET, *exports, f"cd {shlex.quote(str(ROOT))} || exit", ""]
    return "\n".join(lines) + f'exec {shlex.join(command)} "$@"\n'
