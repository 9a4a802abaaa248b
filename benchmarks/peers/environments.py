"""Makes each peer's environment under .bench/, with the versions in its requirements file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.servers import OUTPUT

HERE = Path(__file__).parent


def python_of(peer: str) -> Path:
    """Return the Python of a peer's environment; make the environment if it is missing or old."""
    directory, wanted = OUTPUT / peer, (HERE / f"{peer}.txt").read_text()
    python, stamp = directory.absolute() / "bin" / "python", directory / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
        ]
        subprocess.run([*install, "-r", str(HERE / f"{peer}.txt")], check=True)
        stamp.write_text(wanted)
    return python
