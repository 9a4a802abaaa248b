"""The headers every answer carries."""

from __future__ import annotations

from flask import Response

SITE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

MAIL_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none';"
    " base-uri 'none'; frame-ancestors 'self'"
)
"""For a previewed email, which is hostile: no scripts, no requests, an origin of its own."""


def add_headers(response: Response) -> Response:
    """Set the site's policy where a view has not set a stricter one."""
    response.headers.setdefault("Content-Security-Policy", SITE_POLICY)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    return response
