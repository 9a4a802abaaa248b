"""Tells the next page what was done: in a signed cookie, which nobody else's link can bring."""

from __future__ import annotations

from typing import Any

from flask import request
from werkzeug import Response

from ..access import signing
from ..access.signing import Forged

_LIFETIME = 600
"""Seconds for which the page may be loaded again."""


def keep(response: Response, name: str, value: Any, *, salt: str, path: str) -> None:
    """Have the browser bring this value to the page at `path`."""
    response.set_cookie(
        name,
        signing.sign(salt, value),
        max_age=_LIFETIME,
        path=path,
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )


def kept(name: str, *, salt: str) -> Any:
    """Return the value that was kept under this salt; None where there is none, or it is forged."""
    given = request.cookies.get(name)
    if given is None:
        return None
    try:
        return signing.read(salt, given, _LIFETIME)
    except Forged:
        return None
