"""Waits until the demo's processes answer, and tells why they do not."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .programs import Ports
from .supervision import Supervised

START = 120.0  # seconds until everything must answer


def await_all(state: Path, ports: Ports, running: Supervised, stop: threading.Event) -> bool:
    """Wait until all processes answer; return False on a stop, a time-out or supervisord's end."""
    checks: list[Callable[[], bool]] = [
        lambda: _connects(ports.smtp),
        lambda: _answers(f"http://127.0.0.1:{ports.web}/healthz"),
        lambda: _answers(f"http://127.0.0.1:{ports.flower}/healthcheck"),
        lambda: " ready." in (state / "log" / "worker.log").read_text(),
        lambda: set(running.states().values()) == {"RUNNING"},
    ]
    deadline = time.monotonic() + START
    while checks and time.monotonic() < deadline and running.process.poll() is None:
        if stop.wait(0.1):
            return False
        while checks and checks[0]():
            checks.pop(0)
    return not checks


def _connects(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
    return False


def explanation(state: Path, running: Supervised) -> str:
    """Return what is known of a demo that did not start: its processes, and its logs' ends."""
    lines = ["The demo did not start:"]
    lines += [f"  {name:<10}{status}" for name, status in running.states().items()]
    for log in sorted((state / "log").glob("*.log")):
        lines += [f"--- {log}", *log.read_text(errors="replace").splitlines()[-8:]]
    return "\n".join(lines)
