"""The conditions of a run: without them its figures say nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import servers

_PACKAGES = ("celery", "sqlalchemy", "psycopg", "flask", "flask-mail", "redis")

QUIET = 0.5
"""The load of a machine that has nothing else to do, at most."""


def pin(cores: int | None) -> None:
    """Restrict this process, and all that it starts, to so many of its cores."""
    if cores is None:
        return
    usable = sorted(os.sched_getaffinity(0))
    if cores > len(usable):
        raise ValueError(f"--cores: only {len(usable)} cores are available")
    os.sched_setaffinity(0, usable[:cores])


def conditions(*, rounds: int, scale: float) -> dict[str, Any]:
    """Return what a reader needs in order to judge and to repeat the run."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "rounds": rounds,
        "scale": scale,
        "cores": len(os.sched_getaffinity(0)),
        "cores_of_machine": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
        "servers": servers.versions(),
        "file_system": servers.file_system(servers.OUTPUT),
        "packages": {name: version(name) for name in _PACKAGES},
    }


def disturbed(said: Mapping[str, Any]) -> str:
    """Return what to say where the machine was at work before the run; empty where it was not."""
    if said["load_before"] <= QUIET:
        return ""
    return "So other work ran on the machine, and the figures may be worse for it."


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()
