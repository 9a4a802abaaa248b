"""Leads to a page that says why an act was not done.

So it is where a login has taken the place of a form: it leads to the address of the act, and that
leads to the page of the form. A link may lead to the page, too, and must not say so. The cookie
proves it: a browser sends none that it got behind a link elsewhere.
"""

from __future__ import annotations

from flask import current_app, g, redirect, request
from werkzeug import Response

from ..access import signing
from .signed_cookie import keep, kept

NOT_DONE = "not_done"
"""In the address of a page to which a login has led in the place of an act."""
REST_NOT_DONE = "rest_not_done"
"""The same for an act in parts, some of which may have been done before."""

_COOKIE = "outbox_led"


def lead_back(what: str) -> Response:
    """Lead from the address of an act to the page of its form."""
    page = (request.script_root + request.path).rpartition("/")[0]
    return _led(redirect(f"{page}?{what}=1"), page, what)


def lead_to(address: str, what: str) -> Response:
    """Lead from an act to a page of the dashboard, whose `address` has `what`."""
    return _led(redirect(address, 303), address.partition("?")[0], what)


def _led(response: Response, page: str, what: str) -> Response:
    if current_app.secret_key:  # without one there is no form
        keep(response, _COOKIE, 1, salt=_salt(page, what), path=page)
    return response


def was_led(what: str) -> bool:
    """Return whether this visitor has just been led to this page so."""
    if what not in request.args:
        return False
    return kept(_COOKIE, salt=_salt(request.script_root + request.path, what)) is not None


def _salt(page: str, what: str) -> str:
    return signing.salt_of("outbox-led", g.outbox_visitor.who, page, what)
