"""Leads to the suppression list, and has it tell of an address that was added or removed.

The page's URL does not name the address: web servers log URLs, and no cookies.
"""

from __future__ import annotations

from flask import redirect, request
from werkzeug import Response

from ..access import signing
from ..access.signing import Forged
from .render import here
from .site import visitor

COOKIE = "outbox_told"
_LIFETIME = 600
"""Seconds for which the page may be loaded again."""


def lead_to_list(address: str, told: str) -> Response:
    """Lead this visitor to the list, which looks the address up, and tells what was done."""
    page = here("suppressed_index")
    response = redirect(f"{page}?done=1", 303)
    response.set_cookie(
        COOKIE,
        signing.sign(_salt(), (address, told)),
        max_age=_LIFETIME,
        path=page,
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )
    return response


def told() -> tuple[str, str]:
    """Return the address and what was done; nothing on a page that follows no such act."""
    given = request.cookies.get(COOKIE)
    if given is None or "done" not in request.args:
        return "", ""
    try:
        address, what = signing.read(_salt(), given, _LIFETIME)
    except Forged:
        return "", ""
    return address, what


def _salt() -> str:
    return signing.salt_of("outbox-told", visitor().who)
