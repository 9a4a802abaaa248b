"""How the servers stand: for scripts, and in a line each for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...store.queries.server_status import standings

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


def server_figures(runtime: Runtime) -> dict[str, Any]:
    """Return `servers`, each with its standing, `redirect_to` or None, and `suppressed`."""
    database, names = runtime.database, [server.name for server in runtime.servers]
    return {
        "servers": database.read(lambda connection: standings(connection, database, names)),
        "redirect_to": runtime.settings.redirect_to or None,
        "suppressed": runtime.suppressed(),
    }


def standing_line(standing: dict[str, Any]) -> str:
    """Return one server's state: where it is halted since when, why, and when it is probed next."""
    name = standing["server"]
    if standing["since"] is None:
        allowed = standing["batches_allowed"]
        ramp = f", {allowed} batches at once for now" if allowed else ""
        held = f", {standing['connections']} connections" if standing["connections"] else ""
        return printable(f"server {name}: {standing['state']}{ramp}{held}")
    alert = "ALERT: " if standing["alert"] else ""
    gone = "" if standing["configured"] else ", is configured no more"
    if standing["next_probe"] is None:
        since = f"since {standing['since'][:19]} (UTC{gone})"
        return printable(f"{alert}{name} is suspected {since}: {standing['reason']}")
    return printable(
        f"{alert}{name} is halted since {standing['since'][:19]}, next probe"
        f" {standing['next_probe'][:19]} (UTC, {standing['failures']} failures{gone}):"
        f" {standing['reason']}"
    )


def standing_colour(standing: dict[str, Any]) -> str | None:
    """Return the terminal's colour for a server's line."""
    if standing["since"]:
        return "red"
    return "yellow" if standing["state"] == "recovering" else None


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
