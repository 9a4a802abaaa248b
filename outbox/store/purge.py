"""Retention: finished mails are removed, and nothing else ever is."""

from __future__ import annotations

from sqlalchemy import Connection, delete, exists, select

from ..domain.lifecycle import FINISHED
from .database import Database

CHUNK = 500


def purge(database: Database, *, older_than: float) -> int:
    """Remove a chunk of mails finished `older_than` seconds ago; return how many.

    Call it until it returns 0. Each chunk is a short transaction, so a drain beside it goes on.
    """

    def work(connection: Connection) -> tuple[int, list[int]]:
        email = database.tables.email
        over = email.c.status.in_(sorted(FINISHED)) & (
            email.c.finished_at <= database.now(-older_than)
        )
        statement = select(email.c.id, email.c.content_id).where(over).order_by(email.c.id)
        rows = connection.execute(statement.limit(CHUNK).with_for_update(skip_locked=True)).all()
        ids = [row.id for row in rows]
        if ids:
            for table in (database.tables.attempt, database.tables.recipient):
                connection.execute(delete(table).where(table.c.email_id.in_(ids)))
            connection.execute(delete(email).where(email.c.id.in_(ids)))
        return len(ids), sorted({row.content_id for row in rows})

    removed, contents = database.run(work)
    if contents:
        database.run(lambda connection: _drop(connection, database, contents))
    return removed


def _drop(connection: Connection, database: Database, ids: list[int]) -> None:
    """Remove contents that no mail needs any more.

    The rows are locked first and asked about in a new statement: an enqueue that reuses one of
    them either holds its lock, and we pass it over, or has committed, and we see its mail.

    On MariaDB an enqueue may wait from the DELETE to our commit, which is the next round trip: the
    foreign key's check locks what is left of the removed mails in its index, and that lock passes
    to the gap beside it when InnoDB clears them away.
    """
    content, email = database.tables.content, database.tables.email
    locked = (
        select(content.c.id)
        .where(content.c.id.in_(ids))
        .order_by(content.c.id)
        .with_for_update(skip_locked=True)
    )
    held = connection.execute(locked).scalars().all()
    if held:
        used = exists().where(email.c.content_id == content.c.id)
        connection.execute(delete(content).where(content.c.id.in_(held), ~used))
