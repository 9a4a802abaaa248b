"""Runs Spin: a model becomes a C program that goes through every state, or tells a story."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.servers.missing import missing

MODELS = ("outbox", "breaker")
_DIRECTORY = Path(__file__).parent
_CYCLE = "<<<<<START OF CYCLE>>>>>"
_EXACT = ("-w", "-DNOREDUCE", "-DMEMLIM=4000", "-DNOFAIR")
"""Each state is stored as it is, and no run is assumed to be fair."""
_WIDE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""The table of the states is read at random places: with small pages each costs a walk."""


def sources(model: str) -> list[Path]:
    """Return the files of a model: its first one, and what that includes."""
    first = _DIRECTORY / f"{model}.pml"
    included = re.findall(r'^#include "(.+)"', first.read_text("utf-8"), re.MULTILINE)
    return [first, *(_DIRECTORY / name for name in included)]


def unsaid(model: str, said: set[str], *, but: str) -> set[str]:
    """Return what an action of the model could say and did not, except for what `but` matches."""
    told = "".join(source.read_text("utf-8") for source in sources(model))
    sayings = {saying.strip() for saying in re.findall(r'printf\("(.*?)\\n"', told)}
    return {
        saying
        for saying in sayings
        if not re.search(but, saying) and not any(map(_pattern(saying).fullmatch, said))
    }


def _pattern(saying: str) -> re.Pattern[str]:
    return re.compile(re.escape(saying).replace("%d", r"-?\d+").replace("%e", ".*"))


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

    @property
    def cycle(self) -> tuple[str, ...]:
        """What happens again and again in a run without an end."""
        return self.story[self.story.index(_CYCLE) + 1 :] if _CYCLE in self.story else ()


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search of a model: `macros` choose its size and its failing variant."""

    directory: Path
    model: str
    macros: dict[str, int | str] = field(default_factory=dict)

    def every_state(self) -> Result:
        """Look at every state that can be reached, and at every end."""
        # -Og: -O2 takes longer to compile than it saves; -DNOCOMP: to pack a state takes time.
        return self._run("-Og", "-DSAFETY", "-DNOBOUNDCHECK", "-DNOCOMP")

    def cycles(self) -> Result:
        """Look for a run without an end."""
        return self._run("-Og", "-DNP", "-DNOBOUNDCHECK", options=["-l"])

    def shortest_story(self) -> Result:
        """Find the shortest run that breaks a promise."""
        shortest = replace(self, macros={**self.macros, "SHORTEST": 1})
        # To compile it takes the time.
        return shortest._run("-O0", "-DSAFETY", "-DBFS", "-DNOCOMP")

    def said(self) -> set[str]:
        """Return everything that an action says in any run."""
        self._compile("-Og", "-DSAFETY", "-DPRINTF", "-DNOCOMP")
        with subprocess.Popen(
            ["./pan", "-m100000", "-w22"], cwd=self.directory, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            return {line.strip() for line in process.stdout}

    def _run(self, *flags: str, options: Sequence[str] = ()) -> Result:
        self._compile(*flags)
        report = self._call("./pan", "-m100000", "-w24", *options)
        story: tuple[str, ...] = ()
        if (self.directory / f"{self._file}.trail").exists():
            told = self._call("spin", *self._macros(), "-t", "-B", self._file, check=False)
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
        for source in sources(self.model):
            shutil.copy(source, self.directory)
        self._call("spin", *self._macros(), "-a", self._file)
        self._call("gcc", *_EXACT, *flags, "-o", "pan", "pan.c")

    @property
    def _file(self) -> str:
        return f"{self.model}.pml"

    def _macros(self) -> list[str]:
        return [f"-D{name}={value}" for name, value in self.macros.items()]

    def _call(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=os.environ | _WIDE_PAGES,
            capture_output=True,
            text=True,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


def _number(pattern: str, report: str) -> int:
    found = re.search(pattern, report)
    assert found, report
    return int(float(found[1]))


Searcher = Callable[..., Search]
