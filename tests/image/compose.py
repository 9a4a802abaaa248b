"""`docker compose` on a copy of the project, as a person would type it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.servers.ports import free_port
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
HEALTHY = 180.0
COLLECTED = re.compile("parent snapshot .* does not exist")
"""What Docker 26 says, seldom, when its image store is cleaned while a build is exported to it."""


@dataclass(frozen=True, kw_only=True)
class Compose:
    """The services of compose.yaml in one folder, under a project name of their own."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)

    def __call__(self, *words: str) -> str:
        """Run `docker compose WORDS`; return all that it printed. Raises RuntimeError."""
        return self.run("docker", "compose", *words)

    def run(self, *command: str, again: bool = False) -> str:
        """Run a command in the folder; return all that it printed. Raises RuntimeError."""
        environment = os.environ | {
            "COMPOSE_PROJECT_NAME": "outbox-image",
            "BUILDKIT_PROGRESS": "plain",
            "COMPOSE_ANSI": "never",
            **{name: str(port) for name, port in self.ports.items()},
        }
        done = subprocess.run(
            command, cwd=self.folder, env=environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode and COLLECTED.search(done.stdout) and not again:
            return self.run(*command, again=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
        return done.stdout

    def timed(self, *words: str) -> tuple[float, str]:
        """Run `docker compose WORDS`; return the seconds it took and what it printed."""
        began = time.monotonic()
        printed = self(*words)
        return time.monotonic() - began, printed

    def containers(self, service: str = "") -> list[dict[str, Any]]:
        """Return what the engine knows about each container of the service, or of all."""
        ids = self("ps", "--all", "--quiet", *([service] if service else [])).split()
        found: list[dict[str, Any]] = json.loads(self.run("docker", "inspect", *ids)) if ids else []
        return sorted(found, key=lambda container: str(container["Name"]))

    def wait_healthy(self) -> float:
        """Wait until every service that stays is healthy; return the seconds that it took."""
        began = time.monotonic()
        wait_until(lambda: not self.unhealthy(), HEALTHY, lambda: f"health: {self.unhealthy()}")
        return time.monotonic() - began

    def unhealthy(self) -> dict[str, str]:
        """Return the containers that should be healthy and are not, with what they are."""
        states = {c["Name"]: c["State"] for c in self.containers() if "migrate" not in c["Name"]}
        return {
            name: state.get("Health", {}).get("Status", state["Status"])
            for name, state in states.items()
            if state.get("Health", {}).get("Status") != "healthy" or not state["Running"]
        }

    def sql(self, query: str) -> list[list[str]]:
        """Ask PostgreSQL as its superuser; return rows of texts."""
        words = ["exec", "-T", "postgres", "psql", "-U", "postgres", "-d", "shop", "-AtF", "\t"]
        return [line.split("\t") for line in self(*words, "-c", query).splitlines()]


@contextmanager
def copied(folder: Path) -> Iterator[Compose]:
    """Copy what git knows of the project; at the end remove containers, volumes and our image."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    names = ("WEB_PORT", "MAILPIT_PORT", "FLOWER_PORT")
    compose = Compose(folder=folder, ports={name: free_port() for name in names})
    try:
        yield compose
    finally:
        if (folder / ".env").exists():
            compose("down", "--volumes", "--timeout", "5", "--rmi", "local")
