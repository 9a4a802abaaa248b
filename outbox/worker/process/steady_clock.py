"""The clock of this host that nobody sets, and that goes on while the host sleeps.

`time.monotonic` stands still in a suspended Linux host. A worker that slept through its lease would
find, after the resume, that no time had passed, and send what another has sent meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; elsewhere the monotonic one counts a sleep

# No function of ours: each email asks for the time a dozen times.
steady: Callable[[], float] = (
    time.monotonic if _BOOT is None else partial(time.clock_gettime, _BOOT)
)
"""Returns seconds since some moment in the past; they never go back."""
