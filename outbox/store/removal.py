"""Removes emails and all that belongs to them, with their contents, in one transaction.

A content is removed together with its last email. So no content is ever left over, wherever a purge
dies.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Row, select

from ..domain.delivery.status import FINISHED
from .connection.database import Database
from .connection.list_parts import is_among
from .deletion import delete_keyed
from .lookup.forget import forget

Locked = Row[int, int, int, str, str]
"""An email's id, its content's id, and what it is looked up by."""


def remove(
    connection: Connection, database: Database, ids: Collection[int], horizon: datetime
) -> frozenset[int]:
    """Remove the emails that had finished by the horizon; return which were removed.

    Two kinds are left: emails that others have locked, and the last email of a content that an
    enqueue is about to use again. Only one purge at a time may call this. It does not lock a
    content that has another email, and relies on nobody else removing that email.

    One transaction also keeps enqueues on MariaDB from waiting. The foreign key's check of a
    content locks the removed emails' entries in the index. Once their removal is committed, InnoDB
    clears these away, and the lock passes to the gap beside them, where new emails go.
    """
    tables = database.tables
    rows = _locked(connection, database, ids, horizon)
    held, rows = _lock_contents(connection, database, rows)
    gone = [row.id for row in rows]
    if not gone:
        return frozenset()
    attempt, log = tables.attempt.c.email_id, "ix_outbox_attempt_email_id"
    delete_keyed(connection, database, attempt, gone, index=log)
    forget(connection, database, rows)
    if any(row.recipients > 1 for row in rows):
        delete_keyed(connection, database, tables.recipient.c.email_id, gone)
    delete_keyed(connection, database, tables.email.c.id, gone)
    newest = _newest(connection, database, held)
    if unused := [content for content in held if newest[content] is None]:
        delete_keyed(connection, database, tables.content.c.id, unused)
    return frozenset(gone)


def is_over(database: Database, horizon: datetime) -> ColumnElement[bool]:
    """Return the condition: the email had finished by the horizon."""
    email = database.tables.email.c
    return email.status.in_(sorted(FINISHED)) & (email.finished_at <= horizon)


def _locked(
    connection: Connection, database: Database, ids: Collection[int], horizon: datetime
) -> Sequence[Locked]:
    if not ids:
        return []
    email = database.tables.email.c
    statement = (
        select(email.id, email.content_id, email.recipients, email.recipient, email.message_id)
        .where(is_among(database, email.id, ids), is_over(database, horizon))
        .order_by(email.id)
    )
    return connection.execute(statement.with_for_update(skip_locked=True)).all()


def _lock_contents(
    connection: Connection, database: Database, rows: Sequence[Locked]
) -> tuple[list[int], Sequence[Locked]]:
    """Lock the contents that may lose their last email; return them and the removable emails.

    The caller reads their newest emails again after the lock, in a new statement. An enqueue that
    uses such a content either still holds its lock, and the email is left. Or it has committed, and
    the new email is seen. Contents that keep an email are not locked, or enqueues could not use
    them again meanwhile.
    """
    ids = {row.id for row in rows}
    newest = _newest(connection, database, {row.content_id for row in rows})
    last = sorted(content for content, email in newest.items() if email in ids)
    if not last:
        return [], rows
    content = database.tables.content.c
    locked = select(content.id).where(is_among(database, content.id, last)).order_by(content.id)
    held = connection.execute(locked.with_for_update(skip_locked=True)).scalars().all()
    busy = set(last) - set(held)
    return list(held), [row for row in rows if row.content_id not in busy]


def _newest(
    connection: Connection, database: Database, contents: Collection[int]
) -> dict[int, int | None]:
    """Return the newest email of each content: one step into the index, from its end.

    Emails are removed from the oldest on, and PostgreSQL's index keeps their entries for a time.
    From its start, each chunk of a newsletter would read the entries of all chunks before.
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
