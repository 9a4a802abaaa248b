"""Indexes emails that were written before they could be found, in small steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, select

from ...domain.config.search_terms import LOOKED_UP, Term
from ...domain.search.digests import digests, former_digests
from ..bounded_waits import run_bounded
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.row_locks import free
from ..inserts import lookup
from ..lookup.forget import addresses, remove_pairs
from .fill_subjects import FillSubjects

FILL_CHUNK = 500
"""The most emails that one transaction indexes, so that sending goes on beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """What a step has done."""

    passed: int  # ids that were gone through
    indexed: int  # emails
    locked: int  # emails that another transaction has locked: they are not indexed


def fill(database: Database, indexed: Collection[Term]) -> Iterator[Filled]:
    """Index all emails by these terms; yield what was done after each transaction.

    Emails that are indexed already stay so. The generator may be closed between two transactions.
    Raises RowsLocked if a content's row stays locked, for example by an enqueue on MariaDB.
    """
    passed, subjects = 0, FillSubjects(database)
    while ids := database.read(partial(_ahead, database=database, passed=passed)):
        before, passed = passed, ids[-1]
        work = partial(_index, database=database, indexed=indexed, ids=ids, subjects=subjects)
        done = run_bounded(database, work)
        yield Filled(passed=passed - before, indexed=done, locked=len(ids) - done)
    for agreed in subjects.agreed():
        run_bounded(database, partial(subjects.store, subjects=agreed))
        yield Filled(passed=0, indexed=0, locked=0)


def last_id(connection: Connection, database: Database) -> int:
    """Return the highest id of an email, or 0."""
    return connection.execute(select(func.max(database.tables.email.c.id))).scalar() or 0


def _ahead(connection: Connection, database: Database, passed: int) -> Sequence[int]:
    email = database.tables.email.c
    ahead = select(email.id).where(email.id > passed).order_by(email.id).limit(FILL_CHUNK)
    return connection.execute(ahead).scalars().all()


def _index(
    connection: Connection,
    database: Database,
    indexed: Collection[Term],
    ids: Sequence[int],
    subjects: FillSubjects,
) -> int:
    """Index those of these emails that are free; return how many.

    The lock keeps the purge and erasures away: what they do not see here would stay for ever. So
    it is the lock that an erasure takes. Workers pass these emails over for that moment.
    """
    table = database.tables.email
    email = table.c
    columns = email.id, email.content_id, email.recipient, email.recipients, email.message_id
    own = _own_headers(database)
    chosen = select(*columns, own).where(among(database, ids)).order_by(email.id)
    rows = connection.execute(free(chosen, table)).all()
    if not LOOKED_UP.isdisjoint(indexed):
        _look_up(connection, database, indexed, rows)
    if Term.SUBJECT in indexed:
        subjects.keep(connection, {row.content_id for row in rows})
        subjects.see(rows)
        if others := set(ids) - {row.id for row in rows}:  # they are read, and not written
            unlocked = select(email.content_id, own).where(among(database, others))
            subjects.see(connection.execute(unlocked).all())
    return len(rows)


def _own_headers(database: Database) -> ColumnElement[Any]:
    """Return the headers of an email; null where they are gone, or name one of many readers."""
    email = database.tables.email.c
    whole = email.merge.is_(None) & email.redacted_at.is_(None)
    return case((whole, email.headers)).label("own")


def _look_up(
    connection: Connection,
    database: Database,
    indexed: Collection[Term],
    rows: Sequence[Any],
) -> None:
    several = addresses(connection, database, [row.id for row in rows if row.recipients > 1])
    terms = [
        (row.id, (indexed, several.get(row.id, [row.recipient]), row.message_id)) for row in rows
    ]
    former = ((email_id, former_digests(*of_email)) for email_id, of_email in terms)
    remove_pairs(connection, database, list(lookup.pairs(former)))  # or they would be there twice
    found = [(email_id, digests(*of_email)) for email_id, of_email in terms]
    lookup.insert(connection, database, found)
