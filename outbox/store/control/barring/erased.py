"""The erased people: addresses that get no email, although no table has them any more."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Select, delete, exists, select

from ...connection.database import Database
from ...connection.insert_if_absent import insert_if_absent
from ...connection.list_parts import parts
from ...connection.value_lists import as_parameter, is_among_values


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
    gone = delete(table).where(table.c.digest.in_(database.tombstones.digests(address)))
    return connection.execute(gone).rowcount > 0


def erased_among(connection: Connection, database: Database, keys: Iterable[str]) -> frozenset[str]:
    """Return which of these addresses, as `suppression_key` writes them, are erased."""
    tombstones = database.tombstones
    if tombstones.secret_id is None:
        return frozenset()
    of_digest = {digest: key for key in keys for digest in tombstones.digests(key)}
    found = set[str]()
    for part in parts(sorted(of_digest)):
        values = {"digests": as_parameter(database, part)}
        rows = connection.execute(database.built(_erased), values).scalars()
        found.update(of_digest[bytes(digest)] for digest in rows)
    return frozenset(found)


def _erased(database: Database) -> Select[bytes]:
    """Return the statement for the known ones of `digests`, each found by the primary key."""
    digest = database.tables.erased.c.digest
    return select(digest).where(is_among_values(database, digest, "digests"))


def is_illegible(connection: Connection, database: Database) -> bool:
    """Return whether there are tombstones that the present secret does not find."""
    column = database.tables.erased.c.secret_id
    others = exists(select(column).where(column != (database.tombstones.secret_id or "")))
    return bool(connection.execute(select(others)).scalar())
