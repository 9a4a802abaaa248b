"""Takes figures: rates from the server's own count, quantiles, and peaks of memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.servers.smtp.smtp_sink import SmtpSink

STALL = 90.0
"""Seconds without a new email after which a contestant is given up."""
_ENDED = 2.0
"""The same for one whose processes have ended: the server has what they sent, and counts it."""

_LOOK = 0.002
_WARM_UP = 20


def _always() -> bool:
    return True


def rate(
    sink: SmtpSink, emails: int, go: Callable[[], object], alive: Callable[[], bool] = _always
) -> float:
    """Start, wait for the last email, and return the emails per second.

    It counts from the first accepted email on: the time that a contestant takes to start is no part
    of the rate.
    """
    before = sink.accepted()
    go()
    first = reached(sink, before + 1, alive=alive)
    begun = time.perf_counter()
    last = reached(sink, before + emails, alive=alive)
    return (last - first) / (time.perf_counter() - begun)


def reached(
    sink: SmtpSink, emails: int, look: float = _LOOK, alive: Callable[[], bool] = _always
) -> int:
    """Wait until the server has accepted so many emails; return how many it has then.

    Raises TimeoutError where no more come, and soon where `alive` tells that nobody sends any more.
    """
    seen, since = -1, time.monotonic()
    while True:
        accepted = sink.accepted()
        if accepted >= emails:
            return accepted
        if accepted != seen:
            seen, since = accepted, time.monotonic()
        elif (still := time.monotonic() - since) > (STALL if alive() else _ENDED):
            raise TimeoutError(f"{accepted} of {emails} emails, and no more for {still:.0f} s")
        time.sleep(look)


def quantile(values: Sequence[float], part: float) -> float:
    """Return the quantile: the value that this part of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def milliseconds(work: Callable[[], object], times: int) -> float:
    """Return how long this work takes in the median of so many times, after a warm-up."""
    taken = []
    for _ in range(_WARM_UP + times):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1000)
    return quantile(taken[_WARM_UP:], 0.5)


def forget_peak(pid: int) -> None:
    """Reset a process's peak to the memory that it holds now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak(pid: int | str = "self") -> int:
    """Return the most memory that a process has held, in bytes."""
    return _memory(pid, "VmHWM")


def held(pid: int | str = "self") -> int:
    """Return the memory that a process holds, in bytes."""
    return _memory(pid, "VmRSS")


def shared_fairly(pid: int) -> int:
    """Return a process's memory in bytes, where n processes that share a page have 1/n of it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"Pss is not in /proc/{pid}/smaps_rollup")


def _memory(pid: int | str, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{name} is not in /proc/{pid}/status")
