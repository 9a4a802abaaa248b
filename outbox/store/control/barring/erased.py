"""The erased people: addresses that get no email, although no table has them any more."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, exists, select

from ....domain.header.address import suppression_key
from ...connection.database import Database
from ...connection.insert_if_absent import insert_if_absent
from ...connection.list_parts import parts


def bury(connection: Connection, database: Database, address: str) -> bool:
    """Leave a tombstone of the address; return False if there was one.

    Raises ConfigurationError without a secret.
    """
    tombstones, table = database.tombstones, database.tables.erased
    digest = tombstones.digest(address)
    values = {"secret_id": tombstones.secret_id, "erased_at": database.now()}
    return insert_if_absent(connection, table, digest=digest, **values)


def readmit(connection: Connection, database: Database, address: str) -> bool:
    """Remove the tombstone of the address; return False if there was none."""
    table = database.tables.erased
    gone = delete(table).where(table.c.digest == database.tombstones.digest(address))
    return connection.execute(gone).rowcount == 1


def erased_among(
    connection: Connection, database: Database, addresses: Iterable[str]
) -> frozenset[str]:
    """Return which of these addresses are erased, as `suppression_key` writes them."""
    tombstones, column = database.tombstones, database.tables.erased.c.digest
    if tombstones.secret_id is None:
        return frozenset()
    keys = {tombstones.digest(key): key for key in map(suppression_key, addresses)}
    found = set[str]()
    for part in parts(sorted(keys)):
        rows = connection.execute(select(column).where(column.in_(part))).scalars()
        found.update(keys[bytes(digest)] for digest in rows)
    return frozenset(found)


def is_illegible(connection: Connection, database: Database) -> bool:
    """Return whether there are tombstones that the present secret does not find."""
    column = database.tables.erased.c.secret_id
    others = exists(select(column).where(column != (database.tombstones.secret_id or "")))
    return bool(connection.execute(select(others)).scalar())
