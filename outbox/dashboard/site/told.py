"""Leads to the suppression list, and has it tell of an address that was added or removed.

The page's URL does not name the address: web servers log URLs, and no cookies.
"""

from __future__ import annotations

from flask import redirect, request
from werkzeug import Response

from ..access import signing
from .render import here
from .signed_cookie import keep, kept
from .site import visitor

COOKIE = "outbox_told"


def lead_to_list(address: str, told: str) -> Response:
    """Lead this visitor to the list, which looks the address up, and tells what was done."""
    page = here("suppressed_index")
    response = redirect(f"{page}?done=1", 303)
    keep(response, COOKIE, (address, told), salt=_salt(), path=page)
    return response


def told() -> tuple[str, str]:
    """Return the address and what was done; nothing on a page that follows no such act."""
    if "done" not in request.args:
        return "", ""
    address, what = kept(COOKIE, salt=_salt()) or ("", "")
    return address, what


def _salt() -> str:
    return signing.salt_of("outbox-told", visitor().who)
