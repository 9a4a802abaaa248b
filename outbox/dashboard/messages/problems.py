"""What needs a person: failed and unknown messages, grouped by what went wrong."""

from __future__ import annotations

from flask.typing import ResponseReturnValue

from ...flask_ext.management.management import Management
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
    return render(
        "messages/problems.html", problems=Management().problems(limit=GROUPS, newest=NEWEST)
    )
