"""Questions to a PostgreSQL server: which database it is, and what its settings put at risk."""

from __future__ import annotations

from collections.abc import Hashable

from sqlalchemy import Connection

_IDENTITY = (
    "SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()"
)
_DURABLE = ("synchronous_commit", "fsync", "full_page_writes")


def identity(connection: Connection) -> Hashable:
    """Return what differs from server to server and from database to database.

    Everybody may ask for it.
    """
    return tuple(connection.exec_driver_sql(_IDENTITY).one())


def durability_warnings(connection: Connection) -> list[str]:
    """Return the settings by which a commit may be forgotten."""
    shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in _DURABLE}
    return [f"PostgreSQL's {name} is off" for name, value in shown.items() if value == "off"]
