"""What needs a person: failed and unknown messages, grouped by what went wrong."""

from __future__ import annotations

from flask.typing import ResponseReturnValue

from ...domain.search.last_attempt import NONE, reply_of
from ...flask_ext.app.state import state_of
from ...flask_ext.management.emails import problems
from ...store.report_records import Problem
from ..site.render import render
from ..site.site import Site

GROUPS = 50
NEWEST = 2000
"""The messages that are looked at. Those of the whole table would take too long for a page."""


def add_to(site: Site) -> None:
    """Add the page."""
    site.page("/problems", index)


def index() -> ResponseReturnValue:
    """List the groups, the one with the newest message first."""
    found = problems(state_of().runtime, GROUPS, NEWEST)
    return render("messages/problems.html", problems=found, wanted=wanted)


def wanted(group: Problem) -> dict[str, str]:
    """Return the fields of the search that finds the messages of just this group."""
    return {
        "status": group.status,
        "domain": group.domain,
        "reply": reply_of(group.code, group.enhanced) or NONE,
        "server": group.server or NONE,
        "phase": group.phase or NONE,
    }
