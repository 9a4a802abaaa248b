"""Fresh environments, made by uv from the index that pip is set up with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.servers.missing import missing

ROOT = Path(__file__).parents[2]
SECONDS = 240
"""The longest that one command takes: a cold machine downloads what it installs."""

_PROBE = "import sys, venv, sqlite3; print('%d.%d' % sys.version_info[:2])"
_OF_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
"""Settings of pip, and the variables by which uv takes them."""


_AWAY = ("error sending request", "Failed to fetch", "Failed to download", "dns error")
"""Words of uv where there is no network."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment without pip."""

    directory: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    def run(self, *words: object, **variables: str) -> str:
        """Run one of its programs in an empty folder; return what it prints, and fail with it."""
        program, *arguments = map(str, words)
        away = self.directory / "elsewhere"  # where no file of the checkout can be imported
        away.mkdir(exist_ok=True)
        return run([self.directory / "bin" / program, *arguments], away, variables)

    def install(self, *what: object, constraints: Sequence[str] = ()) -> None:
        """Install packages, at exactly the versions that `constraints` name."""
        file = self.directory / "constraints.txt"
        file.write_text("\n".join(constraints))
        uv("pip", "install", "--quiet", "--python", self.python, "--constraints", file, *what)

    def versions(self) -> dict[str, str]:
        """Return the versions of all that is installed, by their names in lower case."""
        lines = uv("pip", "freeze", "--python", self.python).splitlines()
        pairs = [line.split("==") for line in lines if "==" in line]
        return {name.lower(): version for name, version in pairs}


def make(directory: Path, python: str | Path = sys.executable) -> Environment:
    """Make an empty environment."""
    uv("venv", "--quiet", "--python", python, directory)
    return Environment(directory)


def uv(*words: object) -> str:
    """Run uv and return what it prints; skip the test where the index cannot be reached."""
    variables = {"UV_PYTHON_DOWNLOADS": "never"} | _index()
    try:
        return run([sys.executable, "-m", "uv", *words], ROOT, variables)
    except AssertionError as error:
        if any(word in str(error) for word in _AWAY):
            missing("pip's index", "connect to the network")
        raise


def run(command: Sequence[object], directory: Path, variables: Mapping[str, str]) -> str:
    """Run a command; return what it prints, and fail with all of it where it fails."""
    kept = {
        name: os.environ[name] for name in ("HOME", "PATH", "LANG", "TMPDIR") if name in os.environ
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=directory,
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command[:3]}: {done.stdout[-6000:]}"
    return done.stdout


@cache
def _index() -> dict[str, str]:
    """Return uv's variables for the index, the folders and the certificate that pip would use."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip: the best of all its indexes
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        if variable := _OF_PIP.get(key.rpartition(".")[2]):
            found[variable] = " ".join(value.strip("'\"").replace("\\n", " ").split())
    return found


def interpreter(version: str) -> Path:
    """Return a Python of this version; skip the test without one."""
    if found := find_interpreter(version):
        return found
    pytest.skip(f"Python {version} is not on this machine")


@cache
def find_interpreter(version: str) -> Path | None:
    """Return a Python of this version, on the path or of pyenv."""
    name = f"python{version}"
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates: list[str | Path | None] = [
        shutil.which(name),
        *sorted(home.glob(f"versions/{version}.*/bin/{name}")),
    ]
    for candidate in candidates:
        if candidate is None:
            continue
        done = subprocess.run(
            [candidate, "-c", _PROBE], capture_output=True, text=True, check=False, timeout=SECONDS
        )
        if done.stdout.strip() == version:  # a shim of pyenv may be there for a Python that is not
            return Path(candidate)
    return None
