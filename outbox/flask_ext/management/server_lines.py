"""Lines for people: one for each server's state, and those on what an operator has stopped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ...domain.counted import counted
from ...domain.delivery.breaker_timing import BreakerState
from ...domain.delivery.halt_reason import (
    CERTIFICATE_REMEDY,
    begins_in_clear,
    ends_sessions,
    is_unverified,
    lacks_login,
    lacks_starttls,
    leaves_doubt,
    refuses_connections,
    refuses_login,
    takes_too_long,
    throttles,
)
from ...store.queries.standstill import MOST_COUNTED
from ...store.queries.waiting import MOST_FAILED
from ...store.report_records import RefusedContents, ServerStatus


def server_line(server: ServerStatus) -> str:
    """Return one server's state; for a halted one also since when, why, and its next probe."""
    name = server.server
    if server.since is None:
        allowed = server.batches_allowed
        ramp = f", {counted(allowed, 'batch', 'batches')} at once for now" if allowed else ""
        busy = server.connections
        used = f", {counted(busy, 'connection')}" if busy else ""
        # A person takes "closed", as a breaker is that lets emails through, for the opposite.
        is_closed = server.state is BreakerState.CLOSED
        state = "no fault is known" if is_closed else server.state
        return printable(f"server {name}: {state}{ramp}{used}")
    alert = "ALERT: " if server.alert else ""
    gone = "" if server.configured else ", is no longer configured"
    since = _second(server.since)
    if server.next_probe is None:
        return printable(f"{alert}{name} is suspected since {since} (UTC{gone}): {server.reason}")
    return printable(
        f"{alert}{name} is halted since {since}, next probe {_second(server.next_probe)}"
        f" (UTC, {counted(server.failures, 'failure')}{gone}): {server.reason}{_remedy(server)}"
    )


_LOGIN = "mend its user name or password, and restart the workers: they try it at once"
_NO_LOGIN = (
    "set MAIL_USE_TLS (use_tls) or MAIL_USE_SSL (use_ssl), and the port for logins, mostly 587 or"
    " 465; or leave the user name and the password out, if it wants none; then restart the workers:"
    " they try it at once"
)
_NO_STARTTLS = (
    "it offers no STARTTLS on this port: set the port that does, mostly 587, and restart the"
    " workers; no email is lost or charged"
)
_IN_CLEAR = (
    "it begins in clear on this port: set MAIL_USE_TLS (use_tls), which is STARTTLS, and not"
    " MAIL_USE_SSL (use_ssl), or the port for that, mostly 465, and restart the workers; no email"
    " is lost or charged"
)
_PERSON = "see to it; it is tried again by itself"
_THROTTLED = (
    "it throttles: no email is lost or charged, and it is tried again by itself; lower its rate"
    " if it stays so"
)
_ENDED = (
    "it ended the session after too many refusals or errors in it, and names no rate: no email is"
    " lost or charged, and it is tried again by itself; look for recipients that do not exist"
)
_CROWDED = (
    "no email is lost or charged, and it is tried again by itself; if it takes fewer connections"
    ' at once than your workers have slots, set its "connections" in OUTBOX_SERVERS; if it limits'
    " connections in a time, set none: a cap ends each with its batch"
)
_AWAY = "no email is lost or charged, and it is tried again by itself"
_DOUBT = (
    "each email whose content it did not answer may have gone out: it is in doubt, and its attempt"
    " counts; the others are not charged; it is tried again by itself"
)
_SLOW = (
    "the email that took so long first is charged an attempt, and none is lost; it is tried again"
    " by itself"
)


_ALERTS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (is_unverified, CERTIFICATE_REMEDY),
    (lacks_login, _NO_LOGIN),
    (refuses_login, _LOGIN),
)
_HALTS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (is_unverified, CERTIFICATE_REMEDY),
    (lacks_starttls, _NO_STARTTLS),
    (begins_in_clear, _IN_CLEAR),
    (refuses_connections, _CROWDED),
    (leaves_doubt, _DOUBT),
    (takes_too_long, _SLOW),
    (ends_sessions, _ENDED),
    (throttles, _THROTTLED),
)
"""What a server's reason is about, and what to do then. The first that fits counts."""


def _remedy(server: ServerStatus) -> str:
    """Return what to do about a halted server, behind its own words."""
    if not server.configured:
        return ""
    remedies, otherwise = (_ALERTS, _PERSON) if server.alert else (_HALTS, _AWAY)
    fitting = (remedy for fits, remedy in remedies if fits(server.reason))
    return f" ({next(fitting, otherwise)})"


def _second(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}"


def server_colour(server: ServerStatus) -> str | None:
    """Return the terminal's colour for a server's line."""
    if server.since:
        return "red"
    return "yellow" if server.state is BreakerState.RECOVERING else None


def contents_line(one: RefusedContents) -> str:
    """Return what a server refuses, how many emails it is about, and what to do."""
    reply = f"{one.code} {one.enhanced}".strip()
    told = _number(one.failed, MOST_FAILED, "") + " failed in the last 15 minutes"
    if one.is_halted:
        told += f", {_number(one.waiting, MOST_COUNTED, ' waits', ' wait')}"
    ours = f"--status failed --server {one.server} --phase dot --reply '{reply}'"
    look = f"{_MEND}: flask outbox list {ours if one.failed else '--status pending'}"
    again = f"; then retry them: flask outbox job start retry {ours}" if one.failed else ""
    return printable(
        f"server {one.server} refuses emails for their contents ({reply}): {told}"
        f" ({_WAITS if one.is_halted else _FAILS}; {look}{again})"
    )


_WAITS = "it took none of the last ones, and others are tried by themselves"
_FAILS = "others go on"
_MEND = "mend what these share, or have the server take it"


def _number(number: int, most: int, one: str, several: str | None = None) -> str:
    if number >= most:
        return f"{most} or more{one if several is None else several}"
    return f"{number or 'none'}{one if several is None or number == 1 else several}"


def paused_line(scope: str) -> str:
    """Return the line that tells an operator of a pause."""
    return f"paused: {scope} (flask outbox resume {scope})"


def redirect_line(address: str) -> str:
    """Return the line that tells an operator that emails are redirected."""
    return f"OUTBOX_REDIRECT_TO: every email goes to {address}, and none to its recipients"


SUPPRESSED = (
    "MAIL_SUPPRESS_SEND is on (TESTING turns it on by default): nothing is sent, and emails wait"
)
"""The line that tells an operator that nothing is sent."""


def printable(value: object) -> str:
    """Return a text, such as a stranger's subject or reply, without control characters.

    So it cannot steer the terminal.
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
