"""Asks a PostgreSQL server which database it is, and which of its settings are a risk."""

from __future__ import annotations

from collections.abc import Hashable

from sqlalchemy import Connection

_IDENTITY = (
    "SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()"
)
_READ_ONLY = "SELECT current_setting('transaction_read_only')"
_REPLICA = (
    "plain reads go to a replica, or to a database that is read-only: workers see old figures and"
    " no new emails. Send all of the app's statements to the primary (with Pgpool-II by"
    " app_name_redirect_preference_list, or load_balance_mode = off)"
)
_DURABLE = ("synchronous_commit", "fsync", "full_page_writes")


def identity(connection: Connection) -> Hashable:
    """Return a value that identifies the server and the database. It needs no privilege."""
    return tuple(connection.exec_driver_sql(_IDENTITY).one())


def durability_warnings(connection: Connection) -> list[str]:
    """Return a warning for each setting with which the server may lose a commit."""
    shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in _DURABLE}
    return [f"PostgreSQL's {name} is off" for name, value in shown.items() if value == "off"]


def replica_warnings(connection: Connection) -> list[str]:
    """Return a warning if this connection, which is in autocommit, reads from a replica.

    A proxy that distributes reads sends this statement where it sends those of a sweep.
    """
    found = connection.exec_driver_sql(_READ_ONLY).scalar()
    return [_REPLICA] if found == "on" else []
