"""A server's circuit breaker: its states, how long it stays open, and the ramp after it. Pure.

Closed → suspected (a halting reply that may be one email's own fault) → open (the server is to
blame) → half open (the open time is over: one probe) → recovering (a ramp of batches) → closed.
"""

from __future__ import annotations

from enum import StrEnum


class BreakerState(StrEnum):
    """A breaker's state. `suspected` and `open` are stored; the others follow from the time."""

    CLOSED = "closed"
    SUSPECTED = "suspected"  # in use: the next email, a different one, tells whose fault it was
    OPEN = "open"  # nothing goes over this server
    HALF_OPEN = "half-open"  # the open time is over: one probe at a time
    RECOVERING = "recovering"  # in use, by few batches at once


class Cause(StrEnum):
    """What opened a breaker, or raised a suspicion.

    It says how long the breaker stays open, how it is probed, and what ends the suspicion.
    """

    SESSION = "session"  # no session could be opened: a session without an email is the probe
    EMAILS = "emails"  # sessions work, but every email is halted: an email is the probe
    SILENCE = "silence"  # an email got no reply for long: the suspicion lasts until its time is up


OPEN_FIRST = 5.0
OPEN_MAX = {Cause.SESSION: 300.0, Cause.EMAILS: 30.0}
"""Seconds: the open time begins with 5 and doubles up to the maximum. A server that answers is
probed more often: it may object only to the emails that wait now, and the next should go soon."""

ALERT_PAUSE = 300.0
"""Seconds between tries of a session that only a person can repair."""

SUSPICION_SECONDS = 900.0
"""Seconds after which a suspicion that no email has cleared or confirmed is forgotten."""

RAMP: tuple[tuple[float, int], ...] = ((1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32))
"""(seconds since the breaker closed, batches in flight at most until then). After that no limit.

When the one probe got through, thousands of emails wait and every worker is free. A server that has
just come back should not get them all at once. The ramp follows the time and not the successes: it
needs no write, and a sweep reads it in a statement that it makes anyway. A failure within the ramp
opens the breaker as any other does, and the next ramp begins at one again.
"""

RAMP_SECONDS = RAMP[-1][0]


def open_seconds(failures: int, cause: Cause) -> float:
    """Return the seconds that the breaker stays open after this many failures in a row."""
    return min(OPEN_MAX[cause], OPEN_FIRST * 2.0 ** min(max(failures, 1) - 1, 10))


PROBE_FIRST, SESSION_FIRST = 20.0, 30.0
"""Seconds to wait for the first probe by an email, and for the first session."""


def probe_seconds(failures: int) -> float:
    """Return how many seconds to wait for a silent probe while other emails wait.

    `failures` includes this probe. The wait doubles with each probe that failed. So an email that
    never gets a reply blocks the others for long only where all are like it. A slow server takes
    one email in the end.
    """
    return PROBE_FIRST * 2.0 ** min(max(failures - 2, 0), 10)


def session_seconds(failures: int) -> float:
    """Return how many seconds to wait for a silent server's greeting, or its reply to EHLO.

    No email is charged for a new connection, and one that hangs may hang for ever. The wait grows
    with `failures` in a row, because some servers greet late (RFC 5321 §4.5.3.2.1).
    """
    return SESSION_FIRST * 2.0 ** min(failures, 10)


def allowed(seconds: float) -> int | None:
    """Return how many batches may be in flight `seconds` after the breaker closed; None: any."""
    return next((batches for until, batches in RAMP if seconds < until), None)
