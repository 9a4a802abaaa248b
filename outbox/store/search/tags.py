"""The tags of newsletters, the newest first. No table has them, and no index has them by time.

So a bounded number of emails is looked at: the newest, those that wait, those that need a person,
and some that are spread evenly over all. A tag with many emails cannot hide between the last ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, case, func, literal, null, select, union_all

from ...domain.priority import Priority
from ..backend import backend_of
from ..connection.database import Database
from . import spread

NEWEST = 2000
"""How many of the newest emails are looked at, and of those that need a person."""
WAITING = 300
"""How many of the emails that wait are looked at: of each end of the index."""
MOST_TAGS = 200
"""The most tags that are told of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewsletterTag:
    """A tag that bulk email has."""

    tag: str
    last_id: int  # of its newest email


def newsletter_tags(connection: Connection, database: Database) -> tuple[NewsletterTag, ...]:
    """Return the tags of the bulk emails that are looked at, the one with the newest email first.

    Of E emails in all, a tag with more than E/200 emails in a row is always among them.
    """
    if (own := backend_of(database.dialect).newsletter_ids) is not None:
        last = own(connection, database, NEWEST, WAITING, spread.PROBES)
    else:
        last = _by_steps(connection, database)
    found = [NewsletterTag(tag=tag, last_id=last_id) for tag, last_id in last.items()]
    return tuple(sorted(found, key=lambda one: -one.last_id)[:MOST_TAGS])


def _by_steps(connection: Connection, database: Database) -> dict[str, int]:
    """Return the tags of the bulk emails that are looked at, with their newest emails' ids."""
    names = {
        row.found
        for statement in _looks(connection, database)
        for row in connection.execute(statement)
        if row.found is not None
    }
    rows = _last_ids(connection, database, sorted(names))
    return {row.tag: row.id for row in rows if row.id is not None}


def _looks(connection: Connection, database: Database) -> Iterator[Select[Any]]:
    """Yield statements for the tags of some emails; null for those that are no newsletter's."""
    email = database.tables.email.c
    tag = case((email.priority == int(Priority.BULK), email.tag), else_=null())
    some = select(tag.label("found"))
    yield _each_once(some.order_by(email.id.desc()).limit(NEWEST))
    needs = some.where(email.attention_at.is_not(None))
    yield _each_once(needs.order_by(email.attention_at.desc(), email.id.desc()).limit(NEWEST))
    own = backend_of(database.dialect).waiting_tags
    yield from (own or _waiting)(connection, database, WAITING)
    first, last = connection.execute(select(func.min(email.id), func.max(email.id))).one()
    if first is not None:
        yield spread.probes(database, tag, first, last)


def _waiting(_: Connection, database: Database, most: int) -> Iterator[Select[Any]]:
    """Yield statements for the tags of bulk emails that wait, of each end of their index."""
    email = database.tables.email.c
    is_bulk = email.priority == int(Priority.BULK)
    waits = select(email.tag.label("found")).where(email.due_at.is_not(None), is_bulk)
    due = (email.priority, email.lane, email.due_at, email.id)
    yield _each_once(waits.order_by(*due).limit(most))
    yield _each_once(waits.order_by(*(one.desc() for one in due)).limit(most))


def _each_once(some: Select[Any]) -> Select[Any]:
    return select(some.subquery().c.found).distinct()


_AT_ONCE = 100


def _last_ids(connection: Connection, database: Database, tags: Sequence[str]) -> Iterator[Any]:
    """Yield each tag with the id of its newest email."""
    email = database.tables.email.c
    for start in range(0, len(tags), _AT_ONCE):
        each = (
            select(literal(tag).label("tag"), func.max(email.id).label("id")).where(
                email.tag == tag
            )
            for tag in tags[start : start + _AT_ONCE]
        )
        yield from connection.execute(union_all(*each))
