"""Asks MariaDB or MySQL which server and database the outbox is in."""

from __future__ import annotations

from sqlalchemy import Connection

from ...domain.instance import DatabasePlace

_SERVER = "SHOW VARIABLES LIKE 'server_uuid'"


def place(connection: Connection, table: str) -> DatabasePlace:
    """Return where the table is. MariaDB has no name of its own for a server.

    Each replica of a MySQL has its own `server_uuid`: so it may change when another takes over.
    """
    told = connection.exec_driver_sql(_SERVER).first()
    schema = connection.exec_driver_sql("SELECT database()").scalar()
    home = table if "." in table else f"{schema}.{table}"
    return DatabasePlace(timeline="" if told is None else str(told[1]), home=home.lower())
