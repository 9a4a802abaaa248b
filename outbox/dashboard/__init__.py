"""The dashboard: pages at `/outbox/` for the people who look after the emails."""

from .access.basic_auth import basic_auth
from .access.flask_login import flask_login
from .access.role import Access, Role
from .extension import Dashboard

__all__ = ["Access", "Dashboard", "Role", "basic_auth", "flask_login"]
