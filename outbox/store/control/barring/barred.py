"""Who gets no email: the addresses of the suppression list, and those that were erased."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, exists, select

from ....domain.header.address import suppression_key
from ...connection.database import Database
from ...connection.list_parts import parts
from .erased import erased_among


def any_barred(database: Database) -> ColumnElement[bool]:
    """Return the condition: somebody is on the suppression list or erased."""
    tables = database.tables
    listed, erased = tables.suppression.c.address, tables.erased.c.digest
    return exists(select(listed)) | exists(select(erased))


def barred_among(
    connection: Connection, database: Database, addresses: Iterable[str]
) -> frozenset[str]:
    """Return which of these addresses get no email, as `suppression_key` writes them."""
    keys = sorted(set(map(suppression_key, addresses)))
    listed = database.tables.suppression.c.address
    found = set(erased_among(connection, database, keys))
    for part in parts(keys):
        found.update(connection.execute(select(listed).where(listed.in_(part))).scalars())
    return frozenset(found)
