"""The servers that are measured: where PostgreSQL's data is, and which versions they have."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import click

from tests.support.servers.databases.postgres import Postgres, shipped
from tests.support.servers.server import UNPRIVILEGED
from webapp.demo import redis_server

OUTPUT = Path(".bench")
"""What a run makes is here: results, the peers' environments, and databases while they are used."""

_MEMORY = ("tmpfs", "ramfs")
_MOUNTS = Path("/proc/self/mounts")
_POSTCONF = ("/usr/sbin/postconf", "-h", "mail_version")


def postgres(options: Sequence[str] = ()) -> Postgres:
    """Return a PostgreSQL with its default settings: fsync is on, and the data is on a disk.

    Its data is beside the project: where temporary files are may be memory.
    """
    OUTPUT.mkdir(exist_ok=True)
    return Postgres(options=options, disk=OUTPUT.absolute())


def check() -> None:
    """Raise ClickException where a server is missing, or no figure of it would be true."""
    OUTPUT.mkdir(exist_ok=True)
    if (kind := file_system(OUTPUT)) in _MEMORY:
        raise click.ClickException(f"{OUTPUT.absolute()} is memory ({kind}): nothing is durable")
    if UNPRIVILEGED is not None and not _is_open(OUTPUT.absolute()):
        raise click.ClickException(f"nobody cannot reach {OUTPUT.absolute()}: move the project")
    found = redis_server.find()
    if found is None or not found.is_real:
        name = "no Redis" if found is None else found.name
        raise click.ClickException(f"{name}: the bench needs a redis-server (apt install redis)")


def versions() -> dict[str, str]:
    """Return each server's version."""
    found = redis_server.find()
    return {
        "PostgreSQL": _version(shipped() / "postgres", "--version"),
        "Redis": _version(*found.command, "--version") if found else "",
        "Postfix": _version(*_POSTCONF),
    }


def file_system(path: Path) -> str:
    """Return the kind of the file system that holds a path, such as ext4."""
    held = path.resolve()
    found = (line.split() for line in _MOUNTS.read_text().splitlines())
    holding = [(point, kind) for _, point, kind, *_ in found if held.is_relative_to(point)]
    # The longest point is the innermost; of those mounted over each other the last one counts.
    return max(enumerate(holding), key=lambda each: (len(each[1][0]), each[0]))[1][1]


def _is_open(directory: Path) -> bool:
    """Tell whether each user may pass through a directory: for root PostgreSQL runs as nobody."""
    return all(each.stat().st_mode & 0o001 for each in (directory, *directory.parents))


def _version(*command: str | Path) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    number = re.search(r"\d+(\.\d+)+", done.stdout)
    return number[0] if number else "unknown"
