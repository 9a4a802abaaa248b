"""Removes what emails are looked up by, together with the emails.

An index by email would find these rows, and cost each enqueue a fifth of the lookup's octets more.
So their digests are made again from the emails' own rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Protocol

from sqlalchemy import BigInteger, Connection, Delete, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from ...domain.config.search_terms import ALL_TERMS
from ...domain.search.digests import former_digests
from ..backend import backend_of
from ..connection.database import Database
from ..connection.list_parts import is_among, parts

Pair = tuple[int, int]
"""A digest and an email's id."""


class Looked(Protocol):
    """The columns of an email's row that its digests are made from."""

    id: int
    recipient: str
    recipients: int
    message_id: str


def forget(connection: Connection, database: Database, rows: Sequence[Looked]) -> None:
    """Remove all by which these emails are looked up, whatever is indexed now."""
    remove_pairs(connection, database, pairs_of(connection, database, rows))


def pairs_of(connection: Connection, database: Database, rows: Sequence[Looked]) -> list[Pair]:
    """Return the lookup's rows of these emails, for every term that can be indexed."""
    several = addresses(connection, database, [row.id for row in rows if row.recipients > 1])
    return [
        (digest, row.id)
        for row in rows
        for digest in former_digests(
            ALL_TERMS, several.get(row.id, [row.recipient]), row.message_id
        )
    ]


def addresses(
    connection: Connection, database: Database, ids: Collection[int]
) -> dict[int, list[str]]:
    """Return the recipients' addresses of these emails, by id, if they have several."""
    recipient = database.tables.recipient.c
    found: dict[int, list[str]] = defaultdict(list)
    for part in parts(sorted(ids)):
        among = is_among(database, recipient.email_id, part)
        for row in connection.execute(select(recipient.email_id, recipient.address).where(among)):
            found[row.email_id].append(row.address)
    return found


def remove_pairs(connection: Connection, database: Database, pairs: Sequence[Pair]) -> None:
    """Remove these rows of the lookup; those that do not exist do not matter."""
    lookup = database.tables.lookup
    own = backend_of(database.dialect).delete_pairs
    for part in parts(sorted(pairs)):
        if own is not None:
            own(connection, database, lookup, part)
        elif database.facts.arrays:
            chosen = dict(zip(("digests", "ids"), map(list, zip(*part, strict=True)), strict=True))
            connection.execute(database.built(_by_arrays), chosen)
        else:
            rows = [{"one": digest, "other": email_id} for digest, email_id in part]
            connection.execute(database.built(_one_by_one), rows)


def _by_arrays(database: Database) -> Delete:
    lookup, of_ids = database.tables.lookup, ARRAY(BigInteger)
    listed = func.unnest(bindparam("digests", type_=of_ids), bindparam("ids", type_=of_ids))
    gone = listed.table_valued("digest", "email_id", name="gone").render_derived()
    same = (lookup.c.digest == gone.c.digest) & (lookup.c.email_id == gone.c.email_id)
    return delete(lookup).where(same)


def _one_by_one(database: Database) -> Delete:
    lookup = database.tables.lookup
    same = (lookup.c.digest == bindparam("one")) & (lookup.c.email_id == bindparam("other"))
    return delete(lookup).where(same)
