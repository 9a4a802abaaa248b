"""How the servers stand, in a line each for a person."""

from __future__ import annotations

from datetime import datetime

from ...domain.delivery.breaker_rules import BreakerState
from ...store.report_records import ServerStatus


def standing_line(server: ServerStatus) -> str:
    """Return one server's state: where it is halted since when, why, and when it is probed next."""
    name = server.server
    if server.since is None:
        allowed = server.batches_allowed
        ramp = f", {allowed} batches at once for now" if allowed else ""
        held = f", {server.connections} connections" if server.connections else ""
        return printable(f"server {name}: {server.state}{ramp}{held}")
    alert = "ALERT: " if server.alert else ""
    gone = "" if server.configured else ", is configured no more"
    since = _second(server.since)
    if server.next_probe is None:
        return printable(f"{alert}{name} is suspected since {since} (UTC{gone}): {server.reason}")
    return printable(
        f"{alert}{name} is halted since {since}, next probe {_second(server.next_probe)}"
        f" (UTC, {server.failures} failures{gone}): {server.reason}"
    )


def _second(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}"


def standing_colour(server: ServerStatus) -> str | None:
    """Return the terminal's colour for a server's line."""
    if server.since:
        return "red"
    return "yellow" if server.state is BreakerState.RECOVERING else None


def redirect_line(address: str) -> str:
    """Return what an operator must know where emails are redirected."""
    return f"OUTBOX_REDIRECT_TO: every email goes to {address}, and none to its recipients"


SUPPRESSED = (
    "MAIL_SUPPRESS_SEND is on, as TESTING has it by default: nothing is sent, and emails wait"
)
"""What an operator must know where nothing is to be sent."""


def printable(value: object) -> str:
    """Return a stranger's text, such as a subject or a reply, so that it steers no terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
