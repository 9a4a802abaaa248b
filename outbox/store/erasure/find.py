"""Finds the emails to one person, by the lookup or by reading all emails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sqlalchemy import func

from ...domain.header.address import suppression_key
from ..connection.database import Database
from ..lookup.find import ids_of_recipient, sent_to
from ..queries.id_scan import scan as scan_of

PAGE = 200
"""Emails that are looked at in one step: an erasure locks as many in one transaction."""


def emails_of(database: Database, address: str, *, scan: bool) -> Iterator[list[int]]:
    """Yield the ids of the emails to this address, newest first, in pages.

    The lookup has the emails that were enqueued while recipients were indexed. With `scan` all
    emails are read, a few thousand in one statement, oldest first.
    """
    if scan:
        yield from _scanned(database, address)
        return
    below: int | None = None
    while True:
        ids, below = database.read(
            partial(ids_of_recipient, database=database, address=address, below=below, limit=PAGE)
        )
        if ids:
            yield ids
        if below is None:
            return


def _scanned(database: Database, address: str) -> Iterator[list[int]]:
    email, key = database.tables.email.c, suppression_key(address)
    # Not every database knows the lower case of every letter: what needs SMTPUTF8 is looked at.
    may_be = (func.lower(email.recipient) == key) | (email.recipients > 1) | email.smtputf8
    for stretch in scan_of(database, may_be):
        found = database.read(partial(sent_to, database=database, address=address, ids=stretch.ids))
        yield from pages(sorted(found))


def pages(ids: Sequence[int]) -> Iterator[list[int]]:
    """Yield the ids in their order, as many as are looked at in one step."""
    for start in range(0, len(ids), PAGE):
        yield list(ids[start : start + PAGE])
