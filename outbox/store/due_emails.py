"""How a claim selects due emails, and what it writes into them."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import BindParameter, Select, select

from ..domain.delivery.status import Status
from ..domain.scheduling.claim_plan import ClaimRequest
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
        )
        .order_by(email.c.due_at, email.c.id)
        .limit(request.size)
    )
    # SQL Server has no SKIP LOCKED: SQLAlchemy drops the clause there, and the hint replaces it.
    due = due.with_hint(email, "WITH (ROWLOCK, UPDLOCK, READPAST)", "mssql")
    return due.with_for_update(skip_locked=True)


def claimed(token: UUID | BindParameter[UUID]) -> dict[str, object]:
    """Return the columns that a claim under this token writes into an email's row."""
    return {"status": Status.CLAIMED, "token": token, "due_at": None, "unknown_token": None}
