"""Leads to the page of a form, where a login has taken the place of the form.

A login leads to the address of the act, and that leads here. A link may lead to the page, too, and
must not say so. The cookie proves it: a browser sends none that it got behind a link elsewhere.
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
    response = redirect(f"{page}?{what}=1")
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
