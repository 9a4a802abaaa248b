"""Indexes emails that were written before they could be found, in small steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, select, update

from ...domain.config.search_terms import LOOKED_UP, Term
from ...domain.search.digests import digests
from ...domain.search.subject import folded_subject, read_subject
from ..connection.database import Database
from ..connection.list_parts import among, is_among
from ..connection.row_locks import kept
from ..inserts import lookup
from ..lookup.forget import addresses, remove_pairs

FILL_CHUNK = 500
"""The most emails that one transaction indexes, so that sending goes on beside it."""

HEAD = 16_384
"""The octets at the start of a content that are searched for its subject."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """What a step has done."""

    passed: int  # ids that were gone through
    indexed: int  # emails
    held: int  # emails that another transaction holds: they are not indexed


def fill(database: Database, indexed: Collection[Term]) -> Iterator[Filled]:
    """Index all emails by these terms; yield what was done after each transaction.

    Emails that are indexed already stay so. The generator may be closed between two transactions.
    """
    passed = 0
    while ids := database.read(partial(_ahead, database=database, passed=passed)):
        before, passed = passed, ids[-1]
        done = database.run(partial(_index, database=database, indexed=indexed, ids=ids))
        yield Filled(passed=passed - before, indexed=done, held=len(ids) - done)


def last_id(connection: Connection, database: Database) -> int:
    """Return the highest id of an email, or 0."""
    return connection.execute(select(func.max(database.tables.email.c.id))).scalar() or 0


def _ahead(connection: Connection, database: Database, passed: int) -> Sequence[int]:
    email = database.tables.email.c
    ahead = select(email.id).where(email.id > passed).order_by(email.id).limit(FILL_CHUNK)
    return connection.execute(ahead).scalars().all()


def _index(
    connection: Connection, database: Database, indexed: Collection[Term], ids: Sequence[int]
) -> int:
    """Index those of these emails that nobody holds; return how many.

    The lock keeps the purge away, which would else leave their new rows behind. On PostgreSQL no
    worker waits for it.
    """
    email = database.tables.email.c
    columns = email.id, email.content_id, email.recipient, email.recipients, email.message_id
    own = case((email.merge.is_(None), email.headers)).label("own")  # or it names one reader
    chosen = select(*columns, own).where(among(database, ids)).order_by(email.id)
    rows = connection.execute(kept(connection, chosen)).all()
    if not LOOKED_UP.isdisjoint(indexed):
        _look_up(connection, database, indexed, rows)
    if Term.SUBJECT in indexed:
        _keep_subjects(connection, database, {row.content_id: row.own or b"" for row in rows})
    return len(rows)


def _look_up(
    connection: Connection,
    database: Database,
    indexed: Collection[Term],
    rows: Sequence[Any],
) -> None:
    several = addresses(connection, database, [row.id for row in rows if row.recipients > 1])
    found = [
        (row.id, digests(indexed, several.get(row.id, [row.recipient]), row.message_id))
        for row in rows
    ]
    remove_pairs(connection, database, list(lookup.pairs(found)))  # or they would be there twice
    lookup.insert(connection, database, found)


def _keep_subjects(connection: Connection, database: Database, headers: dict[int, bytes]) -> None:
    """Store the subjects of contents that have none; an email's own headers may have it.

    A subject with merge fields is in no content as it was written, so none is stored.
    """
    content = database.tables.content
    missing = is_among(database, content.c.id, headers) & content.c.subject.is_(None)
    missing &= content.c.key_id.is_(None)  # what is encrypted is not indexed
    head = func.substr(content.c.body, 1, HEAD).label("head")
    found = []
    for row in connection.execute(select(content.c.id, head).where(missing)).all():
        own = read_subject(headers[row.id])
        text = read_subject(row.head) if own is None else own
        if text is not None:
            found.append({"content": row.id, "folded": folded_subject(text)})
    if found:
        one = update(content).where(content.c.id == bindparam("content"))
        connection.execute(one.values(subject=bindparam("folded")), found)
