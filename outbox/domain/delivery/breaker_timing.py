"""A server's circuit breaker: its states, how long it stays open, and the ramp after it. Pure.

Closed → suspected (a halting reply that may be one email's own fault) → open (the server is to
blame) → half open (the open time is over: one probe) → recovering (a ramp of batches) → closed.
"""

from __future__ import annotations

from enum import StrEnum

from .halt_reason import is_unverified


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
    SILENCE = "silence"  # an email got no reply for a long time: only time ends this suspicion


OPEN_FIRST = 5.0
OPEN_MAX = {Cause.SESSION: 300.0, Cause.EMAILS: 30.0}
"""Seconds that a breaker stays open: at first `OPEN_FIRST`, and twice as long after each failed
probe, up to `OPEN_MAX`. A server that opens sessions is probed more often: it may object only to
the emails that wait now, and later ones should not wait long."""

TRIALS = 20
"""So many probes of a server that refuses each content alike come `OPEN_FIRST` after each other.
Each tries other emails, and the few that the server takes may be among the last ones."""

ALERT_PAUSE = 300.0
"""Seconds between tries of a session that only a person can repair: refused credentials that come
again and again may lock an account. The first refusal is tried again after `OPEN_FIRST`: a server
whose directory is overloaded refuses one login now and then."""

RETRIED = 10.0
"""A starting worker brings the next try forward, but not before these seconds after the last."""

SUSPICION_SECONDS = 900.0
"""Seconds after which a suspicion that no email has cleared or confirmed is forgotten."""

RAMP: tuple[tuple[float, int], ...] = ((1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32))
"""Each pair: until so many seconds after the breaker closed, at most so many batches in flight.

After the last pair there is no limit. Thousands of emails may wait when a probe gets through, and
all workers are free. A server that has just come back should not get them all at once. The ramp
depends on the time and not on successes. So it needs no write, and a sweep reads it by a statement
that it makes anyway. A failure during the ramp opens the breaker as any other failure does. The
next ramp then begins with one batch again.
"""

RAMP_SECONDS = RAMP[-1][0]
"""Seconds after which a breaker that closed has no effect any more."""


def open_seconds(failures: int, cause: Cause) -> float:
    """Return the seconds that the breaker stays open after this many failures in a row."""
    return min(OPEN_MAX[cause], OPEN_FIRST * 2.0 ** min(max(failures, 1) - 1, 10))


def trial_seconds(failures: int) -> float:
    """Return the same where each content was refused alike, and each probe tries other emails."""
    return OPEN_FIRST if failures <= TRIALS else OPEN_MAX[Cause.EMAILS]


def first_seconds(
    cause: Cause, reason: str, *, alert: bool, named: float | None, may_pass: bool = False
) -> float:
    """Return the seconds for which a breaker opens; `named` are those that the server asked for.

    With `may_pass` one more try soon is worth it, although a person is alerted.

    A certificate that does not verify is tried again as soon as without its alert: it may be that
    of one of several servers behind the name.
    """
    seconds = max(open_seconds(1, cause), named or 0.0)
    if cause is Cause.EMAILS:
        return min(OPEN_MAX[cause], seconds)
    waits = alert and not may_pass and not is_unverified(reason)
    return max(seconds, ALERT_PAUSE) if waits else seconds


PROBE_FIRST, SESSION_FIRST = 20.0, 30.0
"""Seconds to wait for a reply to the first probe's email, and for a session before any failure."""

SESSION_SHARED = 60.0
"""Seconds after which a wait for a session ends if other emails need the process."""


FIRST_PROBE = 2
"""The failures of a breaker whose first probe is under way: the opening, and this probe."""


def probe_seconds(failures: int) -> float:
    """Return how many seconds a probe waits for the reply to its email while other emails wait.

    `failures` are the breaker's: the opening is the first, and this probe is counted already. The
    wait doubles with each failed probe. So an email without a reply holds up the others for many
    minutes only if all are like it. From a slow server, one email gets its reply in the end.
    """
    return PROBE_FIRST * 2.0 ** min(max(failures - FIRST_PROBE, 0), 10)


def awaited_seconds(failures: int) -> float:
    """Return the seconds until the next probe, while this one's content may still get its reply."""
    return min(OPEN_MAX[Cause.SESSION], probe_seconds(failures))


def session_seconds(failures: int) -> float:
    """Return how many seconds to wait for a silent server's greeting, or its reply to EHLO.

    The wait is short at first: it charges no email, and a server that hangs may never greet. It
    doubles with each of `failures` in a row, because some servers greet late (RFC 5321
    §4.5.3.2.1).
    """
    return SESSION_FIRST * 2.0 ** min(failures, 10)


def ramp_limit(seconds: float) -> int | None:
    """Return how many batches may be in flight `seconds` after the breaker closed.

    It is None where there is no limit. A moment that is yet to come was noted by a clock that was
    ahead. If it is further away than a ramp lasts, it says nothing of when the breaker closed.
    """
    if seconds <= -RAMP_SECONDS:
        return None
    return next((batches for until, batches in RAMP if seconds < until), None)
