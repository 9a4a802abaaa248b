"""Servers' replies that quote an address, where they are kept as a breaker's reason."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from ..connection.database import Database
from .naming import names


def forget_replies(connection: Connection, database: Database, address: str) -> None:
    """Empty the reasons in which the address stands: each server in trouble has a row."""
    breaker = database.tables.breaker
    for row in connection.execute(select(breaker.c.server, breaker.c.reason)).all():
        if names(row.reason, address):
            changed = update(breaker).where(breaker.c.server == row.server)
            connection.execute(changed.values(reason=""))
