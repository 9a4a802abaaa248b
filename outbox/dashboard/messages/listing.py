"""The list of messages, and the form that selects some of them."""

from __future__ import annotations

from flask import request
from flask.typing import ResponseReturnValue

from ...domain.config.enqueue_options import MAX_TAG
from ...domain.delivery.status import Status
from ...domain.errors import InvalidMessage
from ...flask_ext.management.management import Management
from ...store.report_records import EmailSummary
from ..site.render import render
from ..site.site import Site

PAGE = 50
_LONGEST = {"status": 20, "tag": MAX_TAG}
"""The fields of the form, and the most characters of each."""


def add_to(site: Site) -> None:
    """Add the list."""
    site.page("/messages", index)


def index() -> ResponseReturnValue:
    """List the newest messages that fit the form."""
    wanted = {name: _field(name, longest) for name, longest in _LONGEST.items()}
    problem, emails = "", tuple[EmailSummary, ...]()
    try:
        found = Management().list(
            status=wanted["status"] or None, tag=wanted["tag"] or None, limit=PAGE
        )
        emails = found.emails
    except InvalidMessage as error:
        problem = str(error)
    page = render(
        "messages/index.html",
        emails=emails,
        wanted=wanted,
        problem=problem,
        statuses=list(Status),
        most=PAGE,
    )
    return page, 400 if problem else 200


def _field(name: str, longest: int) -> str:
    """Return what the form has, without the blanks around it. Raises InvalidMessage if too long."""
    value = request.args.get(name, "").strip()
    if len(value) > longest:
        raise InvalidMessage(name, f"must be text of at most {longest} characters")
    return value
