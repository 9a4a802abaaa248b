"""The security headers of every answer."""

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
"""The policy for a shown email, which may be hostile: no scripts, no requests, its own origin."""


def add_headers(response: Response) -> Response:
    """Set the site's policy, unless the view has set a stricter one."""
    response.headers.setdefault("Content-Security-Policy", SITE_POLICY)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    return response
