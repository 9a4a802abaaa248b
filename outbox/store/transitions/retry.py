"""failed, unknown → pending: a person sends an email again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, case, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.row_locks import Locked, lock_by_id
from ..recipients import turn_recipients

RETRIED = (Status.FAILED, Status.UNKNOWN)
"""The statuses from which an email can be sent again."""


def retry(connection: Connection, database: Database, ids: Collection[int]) -> Sequence[Locked]:
    """Make failed and unknown emails pending again; return their rows as they were.

    Their counters start anew. An email with several recipients is not sent again to those who got
    it. A doubt stays: a copy may have arrived, whatever happens to the next one, so the email ends
    only `sent` or `unknown`. It counts as the first doubt, so that the next one is not the last.
    """
    email = database.tables.email
    # The verb has locked these rows before, by `on_free`. So this waits for nobody.
    chosen = lock_by_id(connection, database, among(database, ids) & email.c.status.in_(RETRIED))
    turn_recipients(connection, database, chosen, RecipientStatus.FAILED, RecipientStatus.PENDING)
    fresh = {"attempts": 0, "crashes": 0, "waited": 0}
    values = {**fresh, "unknown_token": None, "finished_at": None}
    connection.execute(
        update(email)
        .where(among(database, chosen))
        .values(
            status=Status.PENDING,
            due_at=database.now(),
            unknown_count=case((email.c.unknown_count > 0, 1), else_=0),
            **values,
        )
    )
    return list(chosen.values())
