"""How a server is used again after an outage: a trickle that doubles, and no herd. Pure.

When the one probe got through, thousands of mails are waiting and every worker is free. A server
that has just come back is the last one that should meet them all at once.
"""

from __future__ import annotations

RAMP: tuple[tuple[float, int], ...] = ((1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32))
"""(seconds since the breaker closed, batches in flight at most until then). After that no limit.

By time and not by successes: it needs no write, and a sweep reads it in the statement that it makes
anyway. A failure within the ramp opens the breaker as any other does, and the next ramp begins at
one batch again.
"""

RAMP_SECONDS = RAMP[-1][0]


def allowed(seconds: float) -> int | None:
    """Return how many batches may be in flight so long after the breaker closed; None: any."""
    return next((batches for until, batches in RAMP if seconds < until), None)
