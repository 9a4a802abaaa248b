"""Commands that a newcomer looks up instead of running them: what they name must be there.

`pip install` and `apt install` change the machine, and `make` runs for minutes or hours. Other
tests install the wheel and run the demo; `.ci/run` installs the packages and makes the rest.
"""

from __future__ import annotations

import re
import shlex
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = "flask-mail-outbox"

_REQUIREMENT = re.compile(r"([\w.-]+?)(?:\[([\w,-]+)\])?(?:[<>=!~].*)?")
_TARGET = re.compile(r"^([a-z-]+):", flags=re.MULTILINE)


def look_up(command: str) -> bool:
    """Return whether the command is of this kind. Raises AssertionError for a name in the air."""
    words = shlex.split(command, comments=True)
    while words and re.match(r"\w+=", words[0]):
        words.pop(0)
    match words:
        case ["pip", "install", *names]:
            for name in names:
                _check_installed(name)
        case ["apt", "install", *names]:
            known = (ROOT / ".ci" / "run").read_text().split("packages=(")[1].split(")")[0].split()
            assert set(names) <= set(known), f".ci/run does not install all of {names}"
        case ["make", target, *settings]:
            assert target in _TARGET.findall((ROOT / "Makefile").read_text()), f"make {target}?"
            _check_paths(settings)
        case [".venv/bin/python" | ".venv/bin/pytest", *arguments]:
            _check_paths(arguments)
        case _:
            return False
    return True


def _check_installed(name: str) -> None:
    if name.startswith("-"):
        return
    found = _REQUIREMENT.fullmatch(name)
    assert found, f"{name} is no requirement"
    try:
        known = metadata(OURS if found[1] == "." else found[1])
    except PackageNotFoundError:
        raise AssertionError(f"{name} is not installed here: is it a package?") from None
    extras = {extra for extra in (found[2] or "").split(",") if extra}
    assert extras <= set(known.get_all("Provides-Extra") or ()), f"{name} has no such extra"


def _check_paths(words: list[str]) -> None:
    named = re.findall(r"\btests/[\w/.]+", " ".join(words))
    assert [name for name in named if not (ROOT / name).exists()] == []
