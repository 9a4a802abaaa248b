"""Access for apps with Flask-Login, or with Flask-Security, which is built on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from flask import abort, current_app

from .role import Access, Role


def _id_of(user: Any) -> str | None:
    found = user.get_id()
    return None if found is None else str(found)


def flask_login(
    role: Role | Callable[[Any], Role | Literal[False] | None],
    *,
    who: Callable[[Any], str | None] = _id_of,
) -> Access:
    """Return an `access` that goes by Flask-Login's current user.

    `role` is a function of the user that returns a `Role`, or None or False for a user who may see
    nothing. A plain `Role` is that of each user who is logged in. `who` returns the user's name in
    the audit, by default the id. A visitor who is not logged in is sent to the app's login.
    """

    def access() -> tuple[Role, str | None] | None:
        from flask_login import current_user  # an app without it does not need it

        if not current_user.is_authenticated:
            manager: Any = current_app.extensions.get("login_manager") or vars(current_app).get(
                "login_manager"
            )
            abort(current_app.make_response(manager.unauthorized()))
        found = role if isinstance(role, Role) else role(current_user)
        return None if found is None or found is False else (found, who(current_user))

    return access
