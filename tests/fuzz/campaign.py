"""A property of one source of input, and the run that tries it on many inputs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

CPU = 5.0
"""Seconds of this thread's own time for one input: how busy the machine is does not decide."""


@dataclass(frozen=True, kw_only=True)
class Property:
    """What must hold of every input from one source."""

    source: str
    inputs: st.SearchStrategy[Any]
    holds: Callable[[Any], None]
    size: Callable[[Any], int] = lambda _: 1  # an input may stand for several, as a list does


class Tally:
    """How many inputs were tried, and which of them the property did not hold for first."""

    def __init__(self) -> None:
        self.inputs = 0
        self.failed = False


def attempt(checked: Property, examples: int, seed: int, tally: Tally) -> None:
    """Try the property on so many inputs; raise the failure of the shortest one found."""

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(checked.inputs)
    def run(value: Any) -> None:
        if not tally.failed:  # what is tried to shorten a failure does not count
            tally.inputs += checked.size(value)
        try:
            with _in_time():
                checked.holds(value)
        except BaseException:
            tally.failed = True
            raise

    run()


class _Cut(BaseException):
    """Nothing that is tested may take it for an error of its own."""


@contextmanager
def _in_time() -> Iterator[None]:
    """Fail for an input that takes too long, and cut it: with some, CPython's parsers never end."""
    started = time.thread_time()
    previous = signal.signal(signal.SIGVTALRM, _cut)
    # Again and again: in a finaliser or a collector's callback it would be ignored.
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU, 0.1)
    try:
        yield
    except _Cut:
        raise AssertionError(f"one input took more than {CPU} s of processor time") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
    spent = time.thread_time() - started
    assert spent < CPU, f"one input took {spent:.1f} s of processor time"


def _cut(_signal: int, _frame: FrameType | None) -> None:
    raise _Cut
