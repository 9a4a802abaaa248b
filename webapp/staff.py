"""Who may see the outbox's dashboard: everybody in the demo, and else who has the password."""

from __future__ import annotations

from functools import cache
from typing import Any

from flask import current_app
from werkzeug.security import generate_password_hash

from outbox.dashboard import Access, Role, basic_auth

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


@cache
def _with(password: str) -> Access:
    return basic_auth({USER: (generate_password_hash(password), Role.ACT)})
