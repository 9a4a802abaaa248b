"""Runs a script in a process of its own in which gevent has replaced Python's blocking parts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PATCHED = "from gevent import monkey; monkey.patch_all()\n"


def printed_by(script: str) -> str:
    """Return what the script prints; skip the test where there is no gevent."""
    pytest.importorskip("gevent", reason="the oldest packages are tried without it")
    ran = subprocess.run(
        [sys.executable, "-c", _PATCHED + script],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        check=True,
    )
    return ran.stdout.strip()
