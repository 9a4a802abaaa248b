"""Finds the emails of a recipient, or that with a Message-ID, by the lookup."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from ...domain.header.address import suppression_key
from ...domain.search.digests import recipient_digests
from ..connection.database import Database
from ..connection.list_parts import among, parts
from .forget import addresses


def ids_of_recipient(
    connection: Connection,
    database: Database,
    address: str,
    *,
    below: int | None = None,
    limit: int = 1000,
) -> tuple[list[int], int | None]:
    """Return the ids of emails to this address, newest first, and where to go on.

    It looks at `limit` hits, with ids `below` the given one. The second result is the next `below`,
    or None after the last hit. The address is in the form of the envelope: see `check_address`.
    Hits are verified, because another address may have the same digest.
    """
    lookup = database.tables.lookup.c
    hits = select(lookup.email_id).where(lookup.digest.in_(recipient_digests(address)))
    if below is not None:
        hits = hits.where(lookup.email_id < below)
    newest = hits.order_by(lookup.email_id.desc()).limit(limit)
    ids = connection.execute(newest).scalars().all()
    ours = sent_to(connection, database, address, ids)
    return [i for i in ids if i in ours], ids[-1] if len(ids) == limit else None


def sent_to(
    connection: Connection, database: Database, address: str, ids: Collection[int]
) -> frozenset[int]:
    """Return which of these emails have this recipient; they may be in any status."""
    email, wanted = database.tables.email.c, suppression_key(address)
    found, several = set[int](), list[int]()
    for part in parts(sorted(ids)):
        columns = select(email.id, email.recipient, email.recipients).where(among(database, part))
        for row in connection.execute(columns):
            if suppression_key(row.recipient) == wanted:
                found.add(row.id)
            elif row.recipients > 1:
                several.append(row.id)
    others = addresses(connection, database, several)
    found |= {i for i, each in others.items() if wanted in map(suppression_key, each)}
    return frozenset(found)
