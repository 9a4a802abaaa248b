"""The clock of this host that nobody sets, and that goes on while the host sleeps.

`time.monotonic` stands still in a suspended Linux host. A worker that slept through its lease would
find, after the resume, that no time had passed, and send what another has sent meanwhile.
"""

from __future__ import annotations

import time

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; elsewhere the monotonic one counts a sleep


def steady() -> float:
    """Return seconds since some moment in the past; they never go back."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)
