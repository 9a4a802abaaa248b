"""A newcomer's terminal: runs a page's commands, and keeps those with `&` until the page's end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkstemp

from tests.docs.output import is_as_shown
from tests.docs.ports import WEB, Ports
from tests.support.servers import family, leash
from tests.support.servers.missing import missing
from tests.support.servers.ports import accepts
from tests.support.servers.warm import Warm
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds for a command, and until a server answers."""
BETWEEN_LOOKS = 0.3
"""Seconds until a command is repeated: it takes the core that a worker needs for its start."""

Process = subprocess.Popen[bytes] | Warm

_MODULES = {"flask": "flask", "celery": "celery", "pytest": "pytest"}
_SHELL = re.compile(r"[|<>;&$`*?(){}~]")  # what a command needs a shell for
_LOOKS = re.compile(r"outbox (show|stats|list|health|check)\b|\bcurl (?!.*(-d|-X|--data))")
"""Commands that change nothing: while servers run, they are repeated until they show what the page
shows. An email takes some milliseconds."""
_STATUS = re.compile(r"# exits (\d+)")


@dataclass
class Terminal:
    """A directory, an environment, and the programs that run in the background."""

    directory: Path
    ports: Ports
    environment: dict[str, str] = field(default_factory=dict)
    _background: list[tuple[Process, Path]] = field(default_factory=list)
    _has_servers: bool = False  # that the page itself has started

    def __post_init__(self) -> None:
        bin_, home = Path(sys.executable).parent, self.directory.parent / "home"
        home.mkdir()
        (home / ".curlrc").write_text("no-progress-meter\n")  # as on a terminal
        self.environment |= {
            "HOME": str(home),
            "PATH": f"{bin_}:{os.defpath}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "LANG": "C.UTF-8",
            "FLASK_RUN_PORT": str(self.ports[WEB]),
        }

    def run(self, command: str, shown: list[str]) -> None:
        """Run a command; raise AssertionError if it fails or prints something else than shown."""
        if command.rstrip().endswith("&"):
            self._begin(command.rstrip().removesuffix("&").rstrip())
            return
        expected = int(found[1]) if (found := _STATUS.search(command)) else 0
        if shown and self._has_servers and _LOOKS.search(command):
            self._look(command, shown, expected)
            return
        status, printed = self._ended(command)
        for process, _ in self._background:
            process.poll()  # one that the command has killed is gone, and no zombie
        assert status == expected, f"$ {command}\nexited {status}:\n{printed}\n{self._told()}"
        assert is_as_shown(shown, printed), self._differs(command, shown, printed)

    def start(self, module: str, *arguments: str) -> Process:
        """Start a Python module in the background."""
        return self._keep(self._warm([module, *arguments], {}))[0]

    def close(self) -> None:
        """End what runs in the background."""
        for process, _ in reversed(self._background):
            family.kill(family.family(process.pid))  # its session has its number, also without it
            process.wait()
            leash.release(process.pid)

    def _look(self, command: str, shown: list[str], expected: int) -> None:
        last = ""

        def is_there() -> bool:
            nonlocal last
            status, last = self._ended(command)
            return status == expected and is_as_shown(shown, last)

        try:
            wait_until(is_there, PATIENCE / 2, "the page's output", pause=BETWEEN_LOOKS)
        except TimeoutError:
            raise AssertionError(self._differs(command, shown, last)) from None

    def _differs(self, command: str, shown: list[str], printed: str) -> str:
        page = "\n".join(shown)
        return f"$ {command}\nthe page shows:\n{page}\nit printed:\n{printed}\n{self._told()}"

    def _begin(self, command: str) -> None:
        self._has_servers = True
        process, log = self._keep(self._launch(command))
        ports = [self.ports[WEB]] if re.search(r"\bflask\b.* run\b", command) else []
        ports += [port for port in self.ports.real.values() if f":{port}" in command]
        wait_until(
            lambda: process.poll() is not None or all(map(accepts, ports)),
            PATIENCE,
            lambda: f"{command} to answer; it printed:\n{log.read_text()}",
        )
        assert process.poll() is None, f"$ {command} &\nended:\n{log.read_text()}"

    def _keep(self, launched: tuple[Process, Path]) -> tuple[Process, Path]:
        self._background.append(launched)
        leash.hold(launched[0].pid)
        return launched

    def _ended(self, command: str) -> tuple[int, str]:
        """Run a command to its end; return its exit status and all that it printed."""
        process, log = self._launch(command)
        leash.hold(process.pid)
        try:
            wait_until(
                lambda: process.poll() is not None,
                PATIENCE,
                lambda: f"the end of: {command}\nit printed:\n{log.read_text()}",
            )
        finally:
            with suppress(ProcessLookupError):
                family.kill(family.family(process.pid))
            status = process.wait()
            leash.release(process.pid)
        return status, self.ports.usual(log.read_text(errors="replace"))

    def _launch(self, command: str) -> tuple[Process, Path]:
        if command.startswith("curl ") and shutil.which("curl") is None:
            missing("curl", "apt install curl")
        if not _SHELL.search(command.partition(" #")[0]):
            words = shlex.split(command, comments=True)
            settings = {}
            while words and re.match(r"[A-Z_]+=", words[0]):
                name, _, settings[name] = words.pop(0).partition("=")
            if words[:2] == ["python", "-m"]:
                return self._warm(words[2:], settings)
            if words[0] == "python" and re.fullmatch(r"\w+\.py", words[1]):
                return self._warm([words[1].removesuffix(".py"), *words[2:]], settings)
            if words[0] in _MODULES:
                return self._warm([_MODULES[words[0]], *words[1:]], settings)
        log = self._log()
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return process, log

    def _warm(self, words: list[str], settings: dict[str, str]) -> tuple[Process, Path]:
        log = self._log()
        environment = self.environment | settings
        module, *arguments = words
        process = Warm(
            module,
            arguments,
            directory=self.directory,
            environment=environment,
            log=log,
            ours=module == "flask",
        )
        return process, log

    def _log(self) -> Path:
        handle, name = mkstemp(prefix="log-", dir=self.directory.parent)
        os.close(handle)
        return Path(name)

    def _told(self) -> str:
        """Return what the programs in the background have printed, for a failure."""
        return "\n".join(log.read_text(errors="replace")[-3000:] for _, log in self._background)
