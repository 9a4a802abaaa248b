"""Makes each peer's environment under .bench/, with the versions in its requirements file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.bench import PeerFailed
from benchmarks.servers import OUTPUT

HERE = Path(__file__).parent


def python_of(peer: str) -> Path:
    """Return the Python of a peer's environment; make the environment if it is missing or old.

    It is old, too, once another Python runs the bench: all contestants have the same one.
    """
    directory, requirements = OUTPUT / peer, HERE / f"{peer}.txt"
    python, stamp = directory.absolute() / "bin" / "python", directory / "installed"
    wanted = f"{sys.version}\n{requirements.read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        pip: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
        ]
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
            subprocess.run([*pip, "-r", str(requirements)], check=True)
        except subprocess.CalledProcessError as error:
            raise PeerFailed(f"its environment cannot be made ({error.returncode})") from error
        stamp.write_text(wanted)
    return python
