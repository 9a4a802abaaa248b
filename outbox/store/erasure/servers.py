"""Servers' replies that quote an address, where they are kept as the reason of something else.

That is a breaker, or the entry of another address on the suppression list: an alias, say.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select, update

from ..connection.database import Database
from .naming import names

PAGE = 1000
"""How many entries of the suppression list are read at once."""


def forget_replies(connection: Connection, database: Database, address: str) -> None:
    """Empty the reasons in which the address stands: each server in trouble has a row."""
    breaker = database.tables.breaker
    for row in connection.execute(select(breaker.c.server, breaker.c.reason)).all():
        if names(row.reason, address):
            changed = update(breaker).where(breaker.c.server == row.server)
            connection.execute(changed.values(reason=""))


def forget_reasons(
    connection: Connection, database: Database, address: str, after: str
) -> str | None:
    """Do so with a page of the suppression list; its entries stay.

    It begins `after` an entry's address, or at "". Returns the address after which the next page
    begins, or None. All pages together read the whole list. Rows are locked in their order.
    """
    table, local = database.tables.suppression, address.rpartition("@")[0].lower()
    found = select(table.c.address, table.c.reason).where(table.c.address > after)
    if local.isascii():  # not every database knows the lower case of every letter
        found = found.where(func.lower(table.c.reason).contains(local, autoescape=True))
    rows = connection.execute(found.order_by(table.c.address).limit(PAGE)).all()
    for row in rows:
        if names(row.reason, address):
            changed = update(table).where(table.c.address == row.address)
            connection.execute(changed.values(reason=""))
    return rows[-1].address if len(rows) == PAGE else None
