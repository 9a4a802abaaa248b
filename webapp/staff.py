"""Who may see the dashboard, the newsletter and the metrics: everybody in the demo.

Elsewhere only who has the secret may.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from flask import abort, current_app
from werkzeug.security import generate_password_hash

from outbox.dashboard import Access, Role, basic_auth
from outbox.metrics import bearer

USER = "staff"


def access() -> Any:
    """Return the role of the visitor; None where neither the demo nor a password is configured.

    The demo listens on the loopback interface only, and nothing in it is anybody's.
    """
    if "DEMO_INBOX" in current_app.config:
        return Role.ACT, "everybody: this is a demo"
    if password := current_app.config.get("DASHBOARD_PASSWORD"):
        return _with(password)()
    return None


def only_staff() -> None:
    """Answer a visitor whom `access` does not let in as the dashboard does: before each request."""
    if access() is None:
        abort(404)


def may_scrape() -> Any:
    """Return whether the visitor may read the metrics: everybody in the demo, or by a token."""
    if "DEMO_INBOX" in current_app.config:
        return True
    token = current_app.config.get("METRICS_TOKEN")
    return bearer(token)() if token else False


@cache
def _with(password: str) -> Access:
    return basic_auth({USER: (generate_password_hash(password), Role.ACT)})
