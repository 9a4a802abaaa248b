"""When an email that was put off is tried again. Pure: the random source is an argument."""

from __future__ import annotations

from collections.abc import Callable

STEPS: tuple[float, ...] = (30, 120, 600, 1800, 3600, 7200)
"""Seconds before the second, third, … attempt; the last one repeats."""

FLOOR = 1.0
"""Seconds: the least wait, so that full jitter never makes a hot loop."""

BEHIND_FIRST, BEHIND_MAX = 5.0, 7200.0
"""Seconds: the shortest and the longest delay of an email that waits behind the others."""

GREYLIST_FLOOR = 60.0
"""Seconds: greylisting servers refuse who comes back sooner."""


def delay(
    attempts: int,
    *,
    random: Callable[[], float],
    steps: tuple[float, ...] = STEPS,
    named: float | None = None,
) -> float:
    """Return the seconds to wait after the `attempts`-th charged attempt.

    Full jitter over the step, so that emails put off together do not come back together. A delay
    that the server `named` is kept as the least, jittered upwards by a tenth.
    """
    step = steps[min(max(attempts, 1), len(steps)) - 1]
    jittered = max(FLOOR, step * random())
    if named is None:
        return jittered
    return max(jittered, named * (1 + 0.1 * random()))


def behind(waited: float, named: float | None = None) -> float:
    """Return the seconds for which an email waits behind the others, uncharged.

    Each delay is as long as all that the email has `waited` before, so that one which comes back
    for ever comes back less and less often. A delay that the server `named` is kept as the least.
    """
    return max(BEHIND_FIRST, min(BEHIND_MAX, waited), named or 0.0)


def passed_over(waited: float) -> float:
    """Return the seconds for which an email waits that was not tried, as all like it were halted.

    Half as long as those beside it that were: so it comes back without them, and is tried.
    """
    return max(BEHIND_FIRST, behind(waited) / 2)
