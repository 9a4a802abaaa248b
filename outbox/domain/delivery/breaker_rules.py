"""A server's circuit breaker: its states, how long it stays open, and the ramp after it. Pure.

Closed → suspected (a halting reply that may be one email's own fault) → open (the server is to
blame) → half open (its time has come: one probe) → recovering (a ramp of batches) → closed.
"""

from __future__ import annotations

from enum import StrEnum


class BreakerState(StrEnum):
    """How a server stands. `suspected` and `open` are stored; the others follow from the time."""

    CLOSED = "closed"
    SUSPECTED = "suspected"  # in use: the next email that differs tells whose fault it was
    OPEN = "open"  # nothing goes over this server
    HALF_OPEN = "half-open"  # its time has come: one probe at a time
    RECOVERING = "recovering"  # in use, by few batches at once


class Cause(StrEnum):
    """What opened a breaker, or raised a suspicion.

    It says how long the breaker stays open, how it is probed, and what ends the suspicion.
    """

    SESSION = "session"  # no session could be had: a session probes it, without an email
    EMAILS = "emails"  # sessions work, and every email is halted: an email probes it
    SILENCE = "silence"  # an email got no reply for long: suspected, and it stays so for its time


OPEN_FIRST = 5.0
OPEN_MAX = {Cause.SESSION: 300.0, Cause.EMAILS: 30.0}
"""Seconds: 5, doubling up to this. A server that answers is asked more often: what it objects to
may be all that was waiting, and the next message is not to wait for long."""

ALERT_PAUSE = 300.0
"""Seconds: a session that only a person can mend is not tried more often."""

SUSPICION_SECONDS = 900.0
"""Seconds after which a suspicion that no email has cleared or confirmed is forgotten."""

RAMP: tuple[tuple[float, int], ...] = ((1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32))
"""(seconds since the breaker closed, batches in flight at most until then). After that no limit.

When the one probe got through, thousands of emails are waiting and every worker is free. A server
that has just come back is the last one that should meet them all at once. The ramp goes by time and
not by successes: it needs no write, and a sweep reads it in the statement that it makes anyway. A
failure within the ramp opens the breaker as any other does, and the next ramp begins at one again.
"""

RAMP_SECONDS = RAMP[-1][0]


def open_seconds(failures: int, cause: Cause) -> float:
    """Return the seconds that the breaker stays open after this many failures in a row."""
    return min(OPEN_MAX[cause], OPEN_FIRST * 2.0 ** min(max(failures, 1) - 1, 10))


PROBE_FIRST, SESSION_FIRST = 20.0, 30.0
"""Seconds for which the first probe of an email, and the first session, are waited for."""


def probe_seconds(failures: int) -> float:
    """Return the seconds for which a silent probe is waited for where other emails wait.

    `failures` counts the probe. The patience doubles with each that failed: an email to which
    nothing is ever said shuts the others out for long only where all are like it, and a server
    that takes its time gets one through in the end.
    """
    return PROBE_FIRST * 2.0 ** min(max(failures - 2, 0), 10)


def session_seconds(failures: int) -> float:
    """Return the seconds for which a silent server's greeting, or its EHLO, is waited for.

    A new connection costs no email anything, and one that hangs may hang for ever. After
    `failures` in a row it is waited for longer: some servers greet late (RFC 5321 §4.5.3.2.1).
    """
    return SESSION_FIRST * 2.0 ** min(failures, 10)


def allowed(seconds: float) -> int | None:
    """Return how many batches may be in flight so long after the breaker closed; None: any."""
    return next((batches for until, batches in RAMP if seconds < until), None)
