"""The only place where a test waits."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST = 0.002  # seconds between two looks at first
_LONGEST = 0.05  # and later


def wait_until(
    condition: Callable[[], T],
    timeout: float,
    what: str | Callable[[], str],
    *,
    pause: float | None = None,
) -> T:
    """Return the first true value of `condition`; it is asked at least once, and once at the end.

    `timeout` is in seconds, and so is `pause`, the time between two looks of which each is dear.
    `what` completes the sentence "waited … s for …"; a function is called only on failure, to tell
    how things stand then. Raises `TimeoutError`.
    """
    never = threading.Event()
    deadline = time.monotonic() + timeout
    interval = _SHORTEST if pause is None else pause
    longest = max(interval, _LONGEST)
    while True:
        late = time.monotonic() >= deadline
        if value := condition():
            return value
        if late:
            missed = what if isinstance(what, str) else what()
            raise TimeoutError(f"waited {timeout:g} s for {missed}")
        never.wait(min(interval, max(0.0, deadline - time.monotonic())))
        interval = min(interval * 1.5, longest)
