"""The audit: who did what, newest first."""

from __future__ import annotations

from flask import request
from flask.typing import ResponseReturnValue

from ...flask_ext.management.management import Management
from ..site.render import render
from ..site.site import Site

PAGE = 50


def add_to(site: Site) -> None:
    """Add the page."""
    site.page("/audit", index)


def index() -> ResponseReturnValue:
    """List what people did."""
    before = request.args.get("before", type=int)
    found = Management().audit(before=before, limit=PAGE + 1)
    entries, more = found[:PAGE], len(found) > PAGE
    return render("controls/audit.html", entries=entries, more=more, before=before)
