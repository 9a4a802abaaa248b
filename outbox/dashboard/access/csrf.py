"""Tokens of the forms: another site cannot make a visitor's browser change anything.

An app with Flask-WTF's CSRFProtect checks each POST already, so the forms carry its token. Any
other app gets tokens of our own. Such a token is signed, and names the visitor and a cookie that
only the same browser sends, and never from another site (a signed double submit).
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any

from flask import Response, current_app, g, request

from . import signing
from .role import Visitor
from .signing import Forged

COOKIE = "outbox_csrf"
LIFETIME = 12 * 3600
"""Seconds for which a page that stays open can be used."""

_SALT = "outbox-dashboard"


def field() -> str:
    """Return the name of the forms' field with the token: Flask-WTF looks for its own."""
    return "csrf_token" if _flask_wtf() is None else current_app.config["WTF_CSRF_FIELD_NAME"]


def token_of(visitor: Visitor) -> str:
    """Return the token for the forms of this answer."""
    if (theirs := _flask_wtf()) is not None:
        made: str = theirs.generate_csrf()
        return made
    if "outbox_csrf" not in g:
        g.outbox_csrf = request.cookies.get(COOKIE) or secrets.token_urlsafe(32)
    return signing.sign(_SALT, [visitor.who, g.outbox_csrf])


def refuse_forged(visitor: Visitor) -> None:
    """Raise Forged unless the posted form has a token of this visitor."""
    given = request.form.get(field(), "")
    if (theirs := _flask_wtf()) is not None:
        from wtforms.validators import ValidationError

        try:
            theirs.validate_csrf(given)
        except ValidationError as refusal:
            raise Forged from refusal
        return
    try:
        who, cookie = signing.read(_SALT, given, LIFETIME)
    except (ValueError, TypeError) as refusal:
        raise Forged from refusal
    sent = request.cookies.get(COOKIE, "")
    if who != visitor.who or not hmac.compare_digest(cookie.encode(), sent.encode()):
        raise Forged


def keep(response: Response, path: str) -> None:
    """Give the browser the cookie that the tokens of this answer name."""
    if "outbox_csrf" in g and g.outbox_csrf != request.cookies.get(COOKIE):
        response.set_cookie(
            COOKIE,
            g.outbox_csrf,
            path=path,
            secure=request.is_secure,
            httponly=True,
            samesite="Strict",
        )


def _flask_wtf() -> Any:
    """Return Flask-WTF's module where the app is protected by it, or None."""
    if "csrf" not in current_app.extensions:
        return None
    from flask_wtf import csrf

    return csrf
