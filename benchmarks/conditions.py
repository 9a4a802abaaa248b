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

BEARABLE = 0.02
"""The share of the processors' time that others may have taken without a remark."""


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


class Stolen:
    """Knows how much of the processors' time the host of a virtual machine has given to others.

    A machine that is quiet itself may be slowed by its neighbours, and its load does not show it.
    """

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._begun = self._read()

    def share(self) -> float:
        """Return the share since this object was made; 0.0 where the system does not tell."""
        (stolen, total), (before, all_before) = self._read(), self._begun
        return (stolen - before) / (total - all_before) if total > all_before else 0.0

    def remark(self) -> str:
        """Return what to say if it was so much that figures are worse for it; else nothing."""
        if (share := self.share()) <= BEARABLE:
            return ""
        return f"the host gave {share:.0%} of the processors' time to other machines meanwhile"

    def _read(self) -> tuple[int, int]:
        """Return the ticks that were stolen, and all ticks (proc(5): the first line)."""
        if not self._stat.exists():
            return 0, 0
        ticks = [int(one) for one in self._stat.read_text().splitlines()[0].split()[1:9]]
        return ticks[7], sum(ticks)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()
