"""Who gets no email: the addresses of the suppression list, and those that were erased."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, Select, exists, select

from ....domain.header.address import spellings, suppression_key
from ...connection.database import Database
from ...connection.list_parts import parts
from ...connection.value_lists import as_parameter, is_among_values
from .erased import erased_among


def any_listed(database: Database) -> ColumnElement[bool]:
    """Return the condition: somebody is on the suppression list."""
    return exists(select(database.tables.suppression.c.address))


def any_erased(database: Database) -> ColumnElement[bool]:
    """Return the condition: somebody was erased."""
    return exists(select(database.tables.erased.c.digest))


def barred_among(
    connection: Connection,
    database: Database,
    addresses: Iterable[str],
    *,
    erased: bool = True,
) -> frozenset[str]:
    """Return which of these addresses get no email, as `suppression_key` writes them.

    The caller may have asked who is `erased`: then it is not asked again.
    """
    keys = list(map(suppression_key, addresses))
    found = set(erased_among(connection, database, keys)) if erased else set[str]()
    spelled = {each: key for key in keys for each in spellings(key)}
    for part in parts(list(spelled)):
        values = {"keys": as_parameter(database, part)}
        rows = connection.execute(database.built(_listed), values).scalars()
        found.update(spelled[address] for address in rows)
    return frozenset(found)


def _listed(database: Database) -> Select[str]:
    """Return the statement for the listed ones of `keys`, each found by the primary key."""
    address = database.tables.suppression.c.address
    return select(address).where(is_among_values(database, address, "keys"))
