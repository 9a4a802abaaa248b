"""Contents whose last email is removed, or loses its body: they go in the same transaction.

So no content is ever left over, wherever a purge dies. Only one purge at a time may use this: it
does not lock a content that has another email, and relies on nobody else removing that email.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from sqlalchemy import Connection, select

from ..connection.database import Database
from ..connection.list_parts import is_among
from ..connection.row_locks import locking
from ..deletion import delete_keyed


class OfContent(Protocol):
    """The columns of an email's row that are read here."""

    id: int
    content_id: int


Emails = TypeVar("Emails", bound=OfContent)


def lock_last(
    connection: Connection, database: Database, rows: Sequence[Emails]
) -> tuple[list[int], Sequence[Emails]]:
    """Lock the contents that may lose their last email; return them and the emails to go on with.

    `remove_unused` reads their newest emails again after the lock, in a new statement. An enqueue
    that uses such a content either still holds its lock, and the email is left. Or it has
    committed, and the new email is seen. Contents that keep an email are not locked, or enqueues
    could not use them again meanwhile.
    """
    ids = {row.id for row in rows}
    newest = _newest(connection, database, {row.content_id for row in rows})
    last = sorted(content for content, email in newest.items() if email in ids)
    if not last:
        return [], rows
    content = database.tables.content
    found = select(content.c.id).where(is_among(database, content.c.id, last))
    free = locking(found.order_by(content.c.id), content, skip_locked=True)
    locked = connection.execute(free).scalars().all()
    busy = set(last) - set(locked)
    return list(locked), [row for row in rows if row.content_id not in busy]


def remove_unused(connection: Connection, database: Database, ids: Iterable[int]) -> None:
    """Remove those of these contents that have no email any more. The caller has locked them."""
    newest = _newest(connection, database, set(ids))
    if unused := [content for content, email in newest.items() if email is None]:
        delete_keyed(connection, database, database.tables.content.c.id, unused)


def _newest(
    connection: Connection, database: Database, contents: Collection[int]
) -> dict[int, int | None]:
    """Return the newest email of each content: one step into the index, from its end.

    Emails go from the oldest on, and PostgreSQL's index keeps their entries for a time. From its
    start, each chunk of a newsletter would read the entries of all chunks before.
    """
    content, email = database.tables.content.c, database.tables.email.c
    newest = (
        select(email.id)
        .where(email.content_id == content.id)
        .order_by(email.content_id.desc(), email.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    if not contents:
        return {}
    among = is_among(database, content.id, contents)
    rows = connection.execute(select(content.id, newest).where(among))
    return {key: email_id for key, email_id in rows}  # noqa: C416  (to mypy a row is not a pair)
