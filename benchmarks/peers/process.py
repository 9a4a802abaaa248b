"""Runs a peer's processes: to their end for a result, or in the background while they send."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import click

from benchmarks.bench import PeerFailed
from benchmarks.peers.environments import HERE
from tests.support.servers.server import Server


class PeerProcess(Server):
    """A command that sends in the background while the context lasts."""

    name: ClassVar[str] = "peer"

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment

    def command(self) -> Sequence[str | Path]:
        return self._command

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def working_directory(self) -> Path:
        return HERE

    def start(self) -> None:
        """Start it; what ends at once is told as what ends later."""
        try:
            super().start()
        except RuntimeError as error:
            click.echo(error, err=True)
            raise PeerFailed("it ended at its start") from error

    def answers(self) -> bool:
        return True  # the first email will show it


def result_of(command: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    """Run a command to its end and return what it printed; stderr goes to ours."""
    done = subprocess.run(
        command,
        cwd=HERE,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PeerFailed(f"{Path(command[1]).name} exited with {done.returncode}")
    return done.stdout.strip()
