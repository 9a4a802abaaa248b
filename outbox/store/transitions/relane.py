"""claimed → pending, in another lane: emails whose limits have changed since they were enqueued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection, update

from ...domain.delivery.status import Status
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.row_locks import lock_ids
from ..due_times import first_due


def move(database: Database, token: UUID, homes: Mapping[str, Sequence[int]]) -> None:
    """Give claimed emails back, unsent and uncharged, to the lanes named in `homes`.

    An email that a user's transaction has locked stays claimed: the end of the batch gives it back.
    """
    email = database.tables.email
    ours = (email.c.token == token) & (email.c.status == Status.CLAIMED)

    def work(connection: Connection) -> None:
        for lane, ids in sorted(homes.items()):
            free = lock_ids(connection, database, ours & among(database, ids))
            connection.execute(
                update(email)
                .where(ours, among(database, free))
                .values(status=Status.PENDING, token=None, due_at=first_due(email), lane=lane)
            )

    database.run(work)
