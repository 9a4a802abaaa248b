"""Real Celery processes, to be killed, frozen and asked to end."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from tests.support.servers.server import Server
from tests.support.servers.warm import Warm

_ROOT = Path(__file__).parents[3]


class CeleryProcess(Server):
    """`celery -A <app> worker|beat` with its log in a file, run in the repository's root.

    Inside the context it has said that it is ready. `kill_9` takes the pool's children along;
    `terminate` begins a warm shutdown and returns, `wait_exit` waits for its end, `stop` does both.
    A `warm` one is forked by a process that has imported Celery already, and not executed. That
    process has imported this tree's code as well, unless another tree's is run.
    """

    name: ClassVar[str] = "celery"
    # One of some hundred prefork workers did not end, and why is not known: tests of the end call
    # `stop` or `wait_exit` themselves.
    must_obey: ClassVar[bool] = False
    _READY: ClassVar[dict[str, str]] = {"worker": " ready.", "beat": "beat: Starting..."}

    def __init__(
        self,
        app: str,
        role: Literal["worker", "beat"],
        *options: str,
        environment: Mapping[str, str] | None = None,
        working_directory: Path = _ROOT,
        warm: bool = False,
    ) -> None:
        self._app = app
        self._role = role
        self._options = options
        self._environment = {"PYTHONUNBUFFERED": "1", **(environment or {})}
        self._working_directory = working_directory
        self._warm = warm

    def launch(self) -> "subprocess.Popen[bytes] | Warm":
        if not self._warm:
            return super().launch()
        self.log.touch()
        return Warm(
            "celery",
            self._arguments(),
            directory=self._working_directory,
            environment={**os.environ, **self._environment},
            log=self.log,
            ours=self._working_directory == _ROOT,
        )

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "celery", *self._arguments()]

    def _arguments(self) -> list[str]:
        own = {
            "worker": ["--hostname", f"{self.directory.name}@%h"],
            "beat": ["--pidfile=", f"--schedule={self.directory / 'schedule'}"],
        }
        role = ["-A", self._app, self._role, "--loglevel=INFO"]
        return [*role, *own[self._role], *self._options]

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def working_directory(self) -> Path:
        return self._working_directory

    def answers(self) -> bool:
        return self._READY[self._role] in self.printed()
