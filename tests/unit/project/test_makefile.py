"""`make` goes on after a Ctrl-C at any moment of its first run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

PROJECT = """\
[project]
name = "empty"
version = "1"
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""

BACKEND = """\
import pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "empty-1-py3-none-any.whl"
    files = {
        "METADATA": "Metadata-Version: 2.1\\nName: empty\\nVersion: 1\\nProvides-Extra: one\\n",
        "WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(f"empty-1.dist-info/{file}", text)
    return name
"""

PYTHON = """\
#!/bin/sh
if [ "$*" = "-m venv .venv" ]; then exec cp -Rp "{made}" .venv; fi
exec "{python}" "$@"
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose `venv` has been at work already: to unpack pip takes most of the test."""
    folder = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, "-m", "venv", folder / "made"], check=True)
    python = folder / "python"
    python.write_text(PYTHON.format(made=folder / "made", python=sys.executable))
    python.chmod(0o755)
    return python


@pytest.mark.long
@pytest.mark.parametrize("ended", ["before pip was there", "while pip was copied"])
def test_an_environment_that_was_left_half_made_is_made_anew(
    tmp_path: Path, python: Path, ended: str
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "backend.py").write_text(BACKEND)
    (tmp_path / "constraints.txt").touch()
    left = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", left], check=True)
    if ended == "while pip was copied":
        [packages] = left.glob("lib/python*/site-packages")
        (packages / "pip").mkdir()
        (packages / "pip" / "__init__.py").touch()
    command = ["make", f"PYTHONS={python}", "EXTRAS=one", ".venv"]
    environ = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ | {"PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, (left / "installed").exists()) == (0, True), done.stderr
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Installing" in done.stdout
    assert "Installing" not in again.stdout
