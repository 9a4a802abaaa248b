"""pending, claimed → cancelled: withdrawn in the caller's transaction, safe against a claim."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, select, update

from ..domain.conclusion import RecipientStatus
from ..domain.lifecycle import Status, sources
from .database import Database
from .ending import ended


def withdraw(
    connection: Connection,
    database: Database,
    *,
    id: int | None = None,  # noqa: A002  (the public name of the argument)
    key: str | None = None,
    tag: str | None = None,
) -> int:
    """Withdraw the unsent mails with this id, key or tag; return how many are now cancelled.

    A claimed mail loses its token, so its window will not open. A mail in an open window cannot be
    withdrawn any more, and one in doubt ends `unknown` and is not counted.
    """
    email = database.tables.email
    which: list[ColumnElement[bool]] = [
        column == value
        for column, value in ((email.c.id, id), (email.c.key, key), (email.c.tag, tag))
        if value is not None
    ]
    if len(which) != 1:
        raise TypeError("cancel takes exactly one of id, key and tag")
    waiting = [*which, email.c.status.in_(sources(Status.CANCELLED))]
    locked = select(email.c.id).where(*waiting).order_by(email.c.id).with_for_update()
    ids = connection.execute(locked).scalars().all()
    cancelled = 0
    for start in range(0, len(ids), 1000):
        chunk = email.c.id.in_(ids[start : start + 1000]) & waiting[1]
        connection.execute(
            update(email).where(chunk).values(token=None, **ended(database, Status.CANCELLED))
        )
        _withhold(connection, database, ids[start : start + 1000])
        ending = select(email.c.id).where(
            email.c.id.in_(ids[start : start + 1000]), email.c.status == Status.CANCELLED
        )
        cancelled += len(connection.execute(ending).all())
    return cancelled


def _withhold(connection: Connection, database: Database, ids: Sequence[int]) -> None:
    """Nobody of these mails' waiting recipients is written to later, however a doubt is settled."""
    table = database.tables.recipient
    connection.execute(
        update(table)
        .where(table.c.email_id.in_(ids), table.c.status == RecipientStatus.PENDING)
        .values(status=RecipientStatus.FAILED, reply="withdrawn")
    )
