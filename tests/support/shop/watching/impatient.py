"""Connections for which a wait for a lock is an error: a test fails where it would hang."""

from __future__ import annotations

import sqlalchemy as sa

IMPATIENT = {
    "postgresql": {"options": "-c lock_timeout=2000"},
    "mariadb": {"init_command": "SET SESSION innodb_lock_wait_timeout = 2"},
}


def impatient_url(url: str) -> str:
    """Return the URL of the same database for such connections."""
    parsed = sa.make_url(url)
    query = IMPATIENT[parsed.get_backend_name()]
    return parsed.update_query_dict(query).render_as_string(hide_password=False)
