"""A clock of this host that cannot be set, and that goes on while the host is suspended.

`time.monotonic` stands still while a Linux host is suspended. To a worker that slept through its
lease no time would seem to have passed. It would send emails that another worker has sent already.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; elsewhere the monotonic one counts a sleep

# A C function, for speed: the time is read a dozen times for each email.
steady: Callable[[], float] = (
    time.monotonic if _BOOT is None else partial(time.clock_gettime, _BOOT)
)
"""Returns the seconds since some moment in the past; they never go back."""
