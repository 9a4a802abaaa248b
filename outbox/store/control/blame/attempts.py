"""The newest attempts over one server, as the log has them."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Subquery, func, select

from ...connection.database import Database

READ_BACK = 1000
"""How many attempts of the server are looked at, from the newest one back."""

REACH = 50_000
"""Among how many attempts of all servers they are looked for. No index leads to a server's own:
each result would have to write it. The log's primary key leads to these, so a look at a server that
has few of them costs some milliseconds. At 5,000 emails a second they are ten seconds' worth."""


def newest(database: Database, server: str, *where: ColumnElement[bool]) -> Subquery:
    """Return the newest attempts on this server that fulfil `where`, the newest first."""
    attempt = database.tables.attempt
    every = attempt.alias("every_attempt")
    last = select(func.max(every.c.id)).scalar_subquery()
    # Both bounds: PostgreSQL then expects few rows between them, and never reads the whole log.
    near = (attempt.c.id > last - REACH) & (attempt.c.id <= last)
    found = select(attempt).where(near, attempt.c.server == server, *where)
    return found.order_by(attempt.c.id.desc()).limit(READ_BACK).subquery("newest")
