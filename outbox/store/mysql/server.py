"""Asks a MariaDB or MySQL server which database it is, and which of its limits are a risk."""

from __future__ import annotations

from collections.abc import Hashable

from sqlalchemy import Connection

_IDENTITY = "SELECT @@hostname, @@port, @@datadir, database()"


def identity(connection: Connection) -> Hashable:
    """Return a value that identifies the server and the database. It needs no privilege."""
    return tuple(connection.exec_driver_sql(_IDENTITY).one())


def idle_warnings(connection: Connection) -> list[str]:
    """Return a warning if an idle transaction keeps its locks. MySQL has no such limit."""
    name = "idle_transaction_timeout"
    limit = connection.exec_driver_sql(f"SHOW VARIABLES WHERE variable_name = '{name}'").first()
    return [f"{name} is 0"] if limit is not None and int(limit[1]) == 0 else []


def packet_warnings(connection: Connection, size: int) -> list[str]:
    """Return a warning if the limit of a statement is too low for an email of `size` octets.

    The server ends the connection of an enqueue that exceeds the limit. In a statement of several
    packets, MariaDB 10.11 was seen to take only half of the limit.
    """
    most = int(connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar_one())
    text = f"max_allowed_packet is {most}: it must be over twice OUTBOX_MAX_SIZE"
    return [] if most > 2 * size else [text]
