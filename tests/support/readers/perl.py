"""Runs a program in Perl over messages: it gets their paths, and prints a line of JSON for each."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.servers.missing import missing


def run(
    program: str, messages: Mapping[str, bytes], folder: Path, *, module: str, package: str
) -> dict[str, Any]:
    """Return what it tells of each message, by their names.

    The messages are written into the folder. Without the module, of Debian's `package`, it is as
    with any missing server.
    """
    perl = shutil.which("perl") or missing("Perl", "apt install perl")
    found = subprocess.run([perl, f"-M{module}", "-e1"], check=False, capture_output=True)
    if found.returncode:
        missing(module, f"apt install {package}")
    paths = [folder / str(number) for number in range(len(messages))]
    for path, data in zip(paths, messages.values(), strict=True):
        path.write_bytes(data)
    told = subprocess.run([perl, "-e", program, *paths], check=True, capture_output=True, text=True)
    return dict(zip(messages, map(json.loads, told.stdout.splitlines()), strict=True))
