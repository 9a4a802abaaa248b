"""The first page, and its two parts that are loaded again while somebody looks."""

from __future__ import annotations

from datetime import datetime

from flask import request
from flask.typing import ResponseReturnValue

from ...domain.errors import InvalidMessage
from ...domain.figures.spans import Period
from ...flask_ext.app.state import state_of
from ...flask_ext.management.figures import attempts
from ..site.render import render
from ..site.site import Site
from .charts import charts_of
from .first_page import look


def add_to(site: Site) -> None:
    """Add the page and its parts."""
    site.page("/", index)
    site.page("/now", now)
    site.page("/figures", figures)


def index() -> ResponseReturnValue:
    """Show the whole page."""
    last, state = _period(), look()
    charts = _charts(last, state.at)
    return render("overview/index.html", state=state, last=last, charts=charts)


def now() -> ResponseReturnValue:
    """Return the part that tells how things stand."""
    return render("overview/now.html", state=look())


def figures() -> ResponseReturnValue:
    """Return the part with the charts."""
    last = _period()
    return render("overview/figures.html", last=last, charts=_charts(last))


def _charts(last: Period, now: datetime | None = None) -> object:
    return charts_of(attempts(state_of().runtime, last, now))


def _period() -> Period:
    """Return the period that is asked for; a mistyped one is the hour."""
    try:
        return Period.of(request.args.get("last", Period.HOUR))
    except InvalidMessage:
        return Period.HOUR
