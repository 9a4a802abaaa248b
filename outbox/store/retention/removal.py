"""Removes emails and all that belongs to them, with their contents, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Row, select

from ..connection.database import Database
from ..connection.list_parts import is_among
from ..connection.row_locks import locking
from ..deletion import delete_keyed
from ..lookup.forget import forget
from .horizons import Horizons, past
from .unused_contents import lock_last, remove_unused

Locked = Row[int, int, int, str, str]
"""An email's id, its content's id, and what it is looked up by."""


def remove(
    connection: Connection, database: Database, ids: Collection[int], horizons: Horizons
) -> frozenset[int]:
    """Remove the emails that had finished by their horizons; return which were removed.

    Two kinds are left: emails that others have locked, and the last email of a content that an
    enqueue is about to use again. Only one purge at a time may call this.

    One transaction also keeps enqueues on MariaDB from waiting. The foreign key's check of a
    content locks the removed emails' entries in the index. Once their removal is committed, InnoDB
    clears these away, and the lock passes to the gap beside them, where new emails go.
    """
    tables = database.tables
    contents, rows = lock_last(connection, database, _locked(connection, database, ids, horizons))
    gone = [row.id for row in rows]
    if not gone:
        return frozenset()
    attempt, log = tables.attempt.c.email_id, "ix_outbox_attempt_email_id"
    delete_keyed(connection, database, attempt, gone, index=log)
    forget(connection, database, rows)
    if any(row.recipients > 1 for row in rows):
        delete_keyed(connection, database, tables.recipient.c.email_id, gone)
    delete_keyed(connection, database, tables.email.c.id, gone)
    remove_unused(connection, database, contents)
    return frozenset(gone)


def _locked(
    connection: Connection, database: Database, ids: Collection[int], horizons: Horizons
) -> Sequence[Locked]:
    if not ids:
        return []
    email = database.tables.email.c
    statement = (
        select(email.id, email.content_id, email.recipients, email.recipient, email.message_id)
        .where(is_among(database, email.id, ids), past(database, horizons))
        .order_by(email.id)
    )
    return connection.execute(locking(statement, database.tables.email, skip_locked=True)).all()
