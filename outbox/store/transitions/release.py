"""claimed → pending (given back), expired, suppressed: what is claimed and will not be sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from uuid import UUID

from sqlalchemy import Connection, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status
from ..conditions import end, first_due, having
from ..connection.database import Database
from ..connection.list_parts import parts
from ..connection.row_locks import among, lock, lock_claim, seen


def give_back(
    connection: Connection, database: Database, token: UUID, *, but: Collection[int] = ()
) -> bool:
    """Give back, unsent and uncharged, what this claim still holds, `but` for these.

    The caller knows that it sent none of them. What expired meanwhile ends here. An email keeps its
    place: its due time is the first one again. Returns whether the claim holds nothing any more:
    what a person's transaction holds keeps its token, and is given back another time.
    """
    held = database.tables.email.c.token == token
    free = lock_claim(connection, database, held) - frozenset(but)
    give_back_locked(connection, database, token, free)
    return not seen(connection, database, held)


def give_back_claimed(connection: Connection, database: Database, token: UUID) -> None:
    """Give back what waits for its window: the batch goes on with the window that is open."""
    email = database.tables.email.c
    claimed = (email.token == token) & (email.status == Status.CLAIMED)
    give_back_locked(connection, database, token, lock_claim(connection, database, claimed))


def give_back_locked(
    connection: Connection, database: Database, token: UUID, ids: Collection[int]
) -> None:
    """Give back these emails, whose rows are locked."""
    if not ids:
        return
    email = database.tables.email
    held = (email.c.token == token) & among(database, ids)
    over = (email.c.status == Status.CLAIMED) & (email.c.expires_at <= database.now())
    end(connection, database, lock(connection, database, held & over), Status.EXPIRED)
    waiting = {"status": Status.PENDING, "token": None, "due_at": first_due(email)}
    connection.execute(update(email).where(held).values(**waiting))


def suppress(
    connection: Connection,
    database: Database,
    token: UUID,
    ids: Sequence[int],
    partly: Mapping[int, Collection[str]] = MappingProxyType({}),
) -> None:
    """End the claimed emails of which every recipient that is left is suppressed.

    One of which another recipient was refused has failed: not all of them are on the list. Of those
    that are suppressed `partly` these recipients are left out before anything is sent: a worker
    that is lost later leaves no doubt about them.
    """
    email, held = database.tables.email.c, [*ids, *partly]
    claimed = (email.token == token) & (email.status == Status.CLAIMED)
    # Locked first: of a lease that is lost meanwhile no recipient changes either.
    locked = lock(connection, database, claimed & among(database, held))
    over = [row for row in locked if row.id not in partly]
    several = [row.id for row in over if row.recipients > 1]
    refused = having(connection, database, several, RecipientStatus.FAILED)
    end(connection, database, [row for row in over if row.id in refused], Status.FAILED)
    end(connection, database, [row for row in over if row.id not in refused], Status.SUPPRESSED)
    recipient = database.tables.recipient
    leave_out = (
        update(recipient)
        .where(recipient.c.status == RecipientStatus.PENDING)
        .values(status=RecipientStatus.SUPPRESSED)
    )
    for part in parts(several):
        connection.execute(leave_out.where(recipient.c.email_id.in_(part)))
    for email_id in partly.keys() & {row.id for row in locked}:
        own = leave_out.where(recipient.c.email_id == email_id)
        for barred in parts(sorted(partly[email_id])):
            connection.execute(own.where(recipient.c.address.in_(barred)))
