"""How a claim selects due emails, and what it writes into them."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import CTE, BindParameter, Select, or_, select

from ..domain.delivery.outcome import ALONE_FROM
from ..domain.delivery.status import Status
from ..domain.scheduling.claim_plan import ClaimRequest
from .connection.row_locks import locking
from .schema.clock import clock
from .schema.tables import Tables


def due_statement(tables: Tables, request: ClaimRequest, now: clock) -> Select[int, int]:
    """Return the statement for one batch's due emails, oldest first. It skips locked rows."""
    email = tables.email
    due = (
        select(email.c.id, email.c.crashes)
        .where(
            email.c.lane == request.lane,
            email.c.priority == int(request.priority),
            email.c.due_at <= now,
            *([email.c.crashes < ALONE_FROM] if request.passes_lone else []),
        )
        .order_by(email.c.due_at, email.c.id)
        .limit(request.size)
    )
    return locking(due, email, skip_locked=True)


def most_alone(request: ClaimRequest) -> int:
    """Return how many emails one claim may take alone, beside one batch of all the others."""
    return max(1, request.batches - 1)


def taken(due: CTE, alone: int | BindParameter[int]) -> Select[int]:
    """Return the statement for the ids that a claim takes of these due emails.

    Each email that goes alone needs a batch of its own. So no more than `alone` of them are taken,
    and the others stay due.
    """
    lone = select(due.c.id).where(due.c.crashes >= ALONE_FROM).limit(alone)
    return select(due.c.id).where(or_(due.c.crashes < ALONE_FROM, due.c.id.in_(lone)))


def claimed(token: UUID | BindParameter[UUID]) -> dict[str, object]:
    """Return the columns that a claim under this token writes into an email's row."""
    return {"status": Status.CLAIMED, "token": token, "due_at": None, "unknown_token": None}
