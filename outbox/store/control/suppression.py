"""The suppression list: addresses that get no email."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from ...domain.header.address import spellings, suppression_key
from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..connection.list_parts import parts
from ..report_records import Suppression
from ..schema.clock import utc
from ..schema.column_types import REASON_LENGTH


def suppress(connection: Connection, database: Database, address: str, reason: str) -> bool:
    """Put an address on the list; return False if it was already on it."""
    table = database.tables.suppression
    if len(spellings(address)) > 1 and suppressed(connection, database, address=address):
        return False  # an earlier version's entry may have another spelling
    values = {"reason": reason[:REASON_LENGTH], "created_at": database.now()}
    return insert_if_absent(connection, table, address=suppression_key(address), **values)


def suppress_all(connection: Connection, database: Database, reasons: Mapping[str, str]) -> int:
    """Put addresses, each with its reason, on the list; return how many were not on it."""
    chosen: dict[str, str] = {}
    for address, reason in reasons.items():
        chosen.setdefault(suppression_key(address), reason)
    return sum(
        _add(connection, database, {address: chosen[address] for address in part})
        for part in parts(sorted(chosen))
    )


def _add(connection: Connection, database: Database, reasons: Mapping[str, str]) -> int:
    address = database.tables.suppression.c.address
    spelled = {each: key for key in reasons for each in spellings(key)}
    listed = connection.execute(select(address).where(address.in_(spelled))).scalars()
    known = {spelled[each] for each in listed}
    rows = [
        {"address": key, "reason": reason[:REASON_LENGTH]}
        for key, reason in reasons.items()
        if key not in known
    ]
    if not rows:
        return 0
    statement = insert(database.tables.suppression).values(created_at=database.now())
    try:
        with connection.begin_nested():
            connection.execute(statement, rows)
    except IntegrityError:  # another transaction has added one of them since the read
        return sum(suppress(connection, database, row["address"], row["reason"]) for row in rows)
    return len(rows)


def allow(
    connection: Connection, database: Database, address: str, since: datetime | None = None
) -> bool:
    """Take an address off the list; return False if it was not on it.

    With `since` only the entry that was made at that moment is removed.
    """
    table = database.tables.suppression
    gone = delete(table).where(table.c.address.in_(spellings(address)))
    if since is not None:
        gone = gone.where(table.c.created_at == since)
    return connection.execute(gone).rowcount > 0


def suppressed(
    connection: Connection,
    database: Database,
    *,
    address: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> tuple[Suppression, ...]:
    """Return the list by address: all of it, one address, or the next ones `after` an address."""
    table = database.tables.suppression
    statement = select(table).order_by(table.c.address).limit(limit)
    if address is not None:
        statement = statement.where(table.c.address.in_(spellings(address)))
    if after is not None:
        statement = statement.where(table.c.address > after)
    return tuple(
        Suppression(address=row.address, reason=row.reason, created_at=utc(row.created_at))
        for row in connection.execute(statement)
    )
