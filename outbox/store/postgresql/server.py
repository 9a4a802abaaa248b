"""Asks a PostgreSQL server which database it is, and which of its settings are a risk."""

from __future__ import annotations

from collections.abc import Hashable

from sqlalchemy import Connection

_IDENTITY = (
    "SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()"
)
_DURABLE = ("synchronous_commit", "fsync", "full_page_writes")


def identity(connection: Connection) -> Hashable:
    """Return a value that identifies the server and the database. It needs no privilege."""
    return tuple(connection.exec_driver_sql(_IDENTITY).one())


def durability_warnings(connection: Connection) -> list[str]:
    """Return a warning for each setting with which the server may lose a commit."""
    shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in _DURABLE}
    return [f"PostgreSQL's {name} is off" for name, value in shown.items() if value == "off"]
