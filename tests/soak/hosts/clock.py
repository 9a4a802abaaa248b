"""A host's wall clock, to be set wrong while its processes run; see `clock.c`."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


def build(directory: Path) -> Path | None:
    """Compile the library that shifts the clock; None without a compiler (in CI: an error)."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("CI", "").lower() == "true":
            raise RuntimeError("no C compiler for the wrong clocks: apt install gcc libc6-dev")
        return None
    library = directory / "clock.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return library


class Clock:
    """One host's clock: right at first."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library = library
        self._file = file
        self._file.write_bytes(struct.pack("q", 0))

    def environment(self) -> Mapping[str, str]:
        """Return what the host's processes run with."""
        return {"LD_PRELOAD": str(self._library), "SOAK_CLOCK": str(self._file)}

    def set_off(self, seconds: int) -> None:
        """Be wrong by so much from now on, in the processes that run too."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", seconds))
