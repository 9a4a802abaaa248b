"""Removes the bodies of emails that stay, in one transaction.

Such an email is given an empty content, which it shares with others like it. So a content knows by
its emails alone whether a body is still needed, and goes with the last of them. To read that, one
step into an index is enough, however many emails a newsletter had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Row, func, insert, select, update

from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.row_locks import locking
from ..inserts.contents import inserted_id
from ..redaction import NO_BODY, NOTHING_OWN, has_body
from .horizons import Horizons, past
from .unused_contents import lock_last, remove_unused


def remove_bodies(
    connection: Connection, database: Database, ids: Collection[int], horizons: Horizons
) -> frozenset[int]:
    """Remove the bodies of emails that had finished by their horizons; return these emails.

    Two kinds are left: emails that others have locked, and the last email of a content that an
    enqueue is about to use again. The caller has locked the purge's mark.
    """
    locked = _locked(connection, database, ids, horizons)
    contents, rows = lock_last(connection, database, locked)
    bare = [row.id for row in rows]
    if not bare:
        return frozenset()
    email = database.tables.email
    changed = update(email).where(among(database, bare))
    connection.execute(
        changed.values(
            content_id=_empty_content(connection, database),
            redacted_at=func.coalesce(email.c.redacted_at, database.now()),
            **NOTHING_OWN,
        )
    )
    remove_unused(connection, database, contents)
    return frozenset(bare)


def _locked(
    connection: Connection, database: Database, ids: Collection[int], horizons: Horizons
) -> Sequence[Row[int, int]]:
    if not ids:
        return []
    email = database.tables.email.c
    whole = past(database, horizons) & has_body(database)
    statement = select(email.id, email.content_id).where(among(database, ids), whole)
    ordered = statement.order_by(email.id)
    return connection.execute(locking(ordered, database.tables.email, skip_locked=True)).all()


def _empty_content(connection: Connection, database: Database) -> int:
    """Return the id of the empty content; make one if there is none, or if it was purged."""
    mark, content = database.tables.purge, database.tables.content
    # Two statements: for a join PostgreSQL may read all contents.
    known = connection.execute(select(mark.c.empty_content_id)).scalar()
    there = select(content.c.id).where(content.c.id == known)
    if known is not None and (found := connection.execute(there).scalar()) is not None:
        return int(found)
    now = database.now()
    made = insert(content).values(created_at=now, redacted_at=now, **NO_BODY)
    key = inserted_id(connection.execute(made))
    connection.execute(update(mark).values(empty_content_id=key))
    return key
