"""Runs Spin: the model becomes a C program that goes through every state, or tells a story."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.missing import missing

MODEL = Path(__file__).parent
SOURCES = sorted([*MODEL.glob("*.pml"), *MODEL.glob("*.h")])


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one search came to."""

    states: int
    errors: int
    report: str
    story: tuple[str, ...] = ()  # the run that breaks a promise, line by line

    @property
    def complete(self) -> bool:
        """Whether every state was looked at."""
        return "not completed" not in self.report and "too small" not in self.report

    @property
    def broken(self) -> str | None:
        """The promise that the story breaks."""
        told = [line.removeprefix("BROKEN: ") for line in self.story if line.startswith("BROKEN: ")]
        return told[0] if told else None


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search: `macros` choose its size and its failing variant."""

    directory: Path
    macros: dict[str, int | str] = field(default_factory=dict)

    def every_state(self) -> Result:
        """Look at every state that can be reached, and at every end."""
        return self._run("-O2", "-DSAFETY", "-DNOBOUNDCHECK")

    def cycles(self) -> Result:
        """Look for a run without an end."""
        return self._run("-O2", "-DNP", "-DNOBOUNDCHECK", options=["-l"])

    def shortest_story(self) -> Result:
        """Find the shortest run that breaks a promise."""
        shortest = Search(directory=self.directory, macros={**self.macros, "SHORTEST": 1})
        return shortest._run("-O0", "-DSAFETY", "-DBFS")  # to compile it takes the time

    def said(self) -> set[str]:
        """Return everything that an action says in any run."""
        self._compile("-O0", "-DSAFETY", "-DPRINTF")
        with subprocess.Popen(
            ["./pan", "-m100000", "-w22"], cwd=self.directory, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            return {line.strip() for line in process.stdout}

    def _run(self, *flags: str, options: Sequence[str] = ()) -> Result:
        self._compile(*flags)
        report = self._call("./pan", "-m100000", "-w24", *options)
        story: tuple[str, ...] = ()
        if (self.directory / "outbox.pml.trail").exists():
            told = self._call("spin", *self._macros(), "-t", "-B", "outbox.pml", check=False)
            story = tuple(line.strip() for line in told.splitlines() if line.strip())
        return Result(
            states=_number(r"(\S+) states, stored", report),
            errors=_number(r"errors: (\d+)", report),
            report=report,
            story=story,
        )

    def _compile(self, *flags: str) -> None:
        if not (shutil.which("spin") and shutil.which("gcc")):
            missing("Spin", "apt install spin gcc libc6-dev")
        self.directory.mkdir(exist_ok=True)
        for source in SOURCES:
            shutil.copy(source, self.directory)
        self._call("spin", *self._macros(), "-a", "outbox.pml")
        self._call("gcc", "-w", "-DNOREDUCE", "-DMEMLIM=4000", *flags, "-o", "pan", "pan.c")

    def _macros(self) -> list[str]:
        return [f"-D{name}={value}" for name, value in self.macros.items()]

    def _call(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, check=False
        )
        if check:
            assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


def _number(pattern: str, report: str) -> int:
    found = re.search(pattern, report)
    assert found, report
    return int(float(found[1]))


Searcher = Callable[..., Search]
