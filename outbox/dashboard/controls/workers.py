"""The workers and beats, living and dead, and what is wrong with them."""

from __future__ import annotations

from flask.typing import ResponseReturnValue

from ...flask_ext.management.management import Management
from ..site.render import render
from ..site.site import Site


def add_to(site: Site) -> None:
    """Add the page."""
    site.page("/workers", index)


def index() -> ResponseReturnValue:
    """List whom the table has seen within a day."""
    return render("controls/workers.html", fleet=Management().workers())
