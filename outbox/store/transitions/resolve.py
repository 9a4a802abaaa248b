"""unknown → sent, failed, pending: a person found out; pending if recipients still wait."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status, sources
from ..connection.database import Database
from ..connection.endings import Ending, note_endings
from ..connection.list_parts import among
from ..connection.row_locks import lock_by_id
from ..recipients import having, turn_recipients
from ..redaction import redact_ended


def resolve(
    connection: Connection, database: Database, ids: Collection[int], outcome: Status
) -> dict[int, Status]:
    """Resolve unknown emails as `sent` or `failed`, as a person found out; return the new statuses.

    An email ends `sent` if any of its recipients has a copy. If the doubt stopped the email before
    it was sent to some recipients, it is pending again for these. Raises ValueError for another
    `outcome`.
    """
    if Status.UNKNOWN not in sources(outcome) or outcome is Status.PENDING:
        raise ValueError("outcome must be sent or failed, to resolve an email in doubt")
    email = database.tables.email
    doubtful = among(database, ids) & (email.c.status == Status.UNKNOWN)
    # The verb has locked these rows before, by `on_free`. So this waits for nobody.
    chosen = lock_by_id(connection, database, doubtful)
    several = [row.id for row in chosen.values() if row.recipients > 1]
    settled_as = RecipientStatus(outcome)
    turn_recipients(connection, database, several, RecipientStatus.UNKNOWN, settled_as)
    waiting = having(connection, database, several, RecipientStatus.PENDING)
    sent = having(connection, database, several) - waiting
    settled = {"unknown_count": 0, "unknown_token": None}
    again = {"due_at": database.now(), "finished_at": None}
    over = {"finished_at": database.now()}
    now: dict[int, Status] = {}
    for group, status, values in (
        (waiting, Status.PENDING, again),
        (sent, Status.SENT, over),
        (chosen.keys() - waiting - sent, outcome, over),
    ):
        if group:
            ours = update(email).where(among(database, group))
            connection.execute(ours.values(status=status, **settled, **values))
            redact_ended(connection, database, (chosen[i] for i in group), status)
            now |= dict.fromkeys(group, status)
    note_endings(connection, (Ending(status, i, "resolved") for i, status in now.items()))
    return now
