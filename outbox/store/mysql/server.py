"""Questions to a MariaDB or MySQL server: which database it is, and what it does not take."""

from __future__ import annotations

from collections.abc import Hashable

from sqlalchemy import Connection

_IDENTITY = "SELECT @@hostname, @@port, @@datadir, database()"


def identity(connection: Connection) -> Hashable:
    """Return what differs from server to server and from database to database.

    Everybody may ask for it.
    """
    return tuple(connection.exec_driver_sql(_IDENTITY).one())


def packet_warnings(connection: Connection, size: int) -> list[str]:
    """Return what keeps an email of `size` bytes out: the limit of a statement.

    It ends the connection of the enqueue that exceeds it. MariaDB 10.11 was seen to take only half
    of what it names in a statement of several packets.
    """
    most = int(connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar_one())
    text = f"max_allowed_packet is {most}, and not over twice OUTBOX_MAX_SIZE"
    return [] if most > 2 * size else [text]
