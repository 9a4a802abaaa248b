"""When an email that was put off is tried again. Pure: the random source is an argument."""

from __future__ import annotations

from collections.abc import Callable

STEPS: tuple[float, ...] = (30, 120, 600, 1800, 3600, 7200)
"""The longest delays in seconds before the second, third, … attempt; the last one repeats."""

FLOOR = 1.0
"""The shortest delay in seconds. It keeps full jitter from making a hot loop."""

BEHIND_FIRST, BEHIND_MAX = 5.0, 7200.0
"""Seconds: the shortest and the longest delay of an email that waits behind the others."""

GREYLIST_FLOOR = 60.0
"""Seconds: a greylisting server refuses a client that comes back sooner."""


def delay(
    attempts: int,
    *,
    random: Callable[[], float],
    steps: tuple[float, ...] = STEPS,
    named: float | None = None,
) -> float:
    """Return the seconds to wait after the `attempts`-th charged attempt.

    Full jitter over the step keeps emails that were put off together from coming back together.
    A delay that the server `named` is the minimum; up to a tenth of jitter is added to it.
    """
    step = steps[min(max(attempts, 1), len(steps)) - 1]
    jittered = max(FLOOR, step * random())
    if named is None:
        return jittered
    return max(jittered, named * (1 + 0.1 * random()))


def behind(waited: float, named: float | None = None) -> float:
    """Return the seconds for which an email waits behind the others, uncharged.

    The delay is as long as the email has `waited` in all before. So an email that keeps coming back
    does so less and less often. A delay that the server `named` is the minimum.
    """
    return max(BEHIND_FIRST, min(BEHIND_MAX, waited), named or 0.0)


def passed_over(waited: float) -> float:
    """Return the delay in seconds of an email not tried because all emails like it were halted.

    It is half the delay of the halted ones. So the email comes back without them, and is tried.
    """
    return max(BEHIND_FIRST, behind(waited) / 2)
