"""Real Celery processes, to be killed, frozen and asked to end."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from tests.servers.server import Server

_ROOT = Path(__file__).parents[2]


class CeleryProcess(Server):
    """`celery -A <app> worker|beat` with its log in a file, run in the repository's root.

    Inside the context it has said that it is ready. `kill_9` takes the pool's children along;
    `terminate` begins a warm shutdown and returns, `wait_exit` waits for its end, `stop` does both.
    """

    name: ClassVar[str] = "celery"
    _READY: ClassVar[dict[str, str]] = {"worker": " ready.", "beat": "beat: Starting..."}

    def __init__(
        self,
        app: str,
        role: Literal["worker", "beat"],
        *options: str,
        environment: Mapping[str, str] | None = None,
        working_directory: Path = _ROOT,
    ) -> None:
        self._app = app
        self._role = role
        self._options = options
        self._environment = {"PYTHONUNBUFFERED": "1", **(environment or {})}
        self._working_directory = working_directory

    def command(self) -> Sequence[str | Path]:
        celery = [sys.executable, "-m", "celery", "-A", self._app, self._role]
        own = {
            "worker": ["--hostname", f"{self.directory.name}@%h"],
            "beat": ["--pidfile=", f"--schedule={self.directory / 'schedule'}"],
        }
        return [*celery, "--loglevel=INFO", *own[self._role], *self._options]

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def working_directory(self) -> Path:
        return self._working_directory

    def answers(self) -> bool:
        return self._READY[self._role] in self.printed()
