"""pending → claimed: a batch beside emails whose rows alone fail.

A trigger of the app's may do so. One such row would fail the claim of all. So each is found, and
passed over for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from uuid import UUID

from sqlalchemy import Connection, Row, select, update

from ...domain.delivery.outcome import ALONE_FROM
from ...domain.delivery.status import Status
from ...domain.scheduling.claim_plan import ClaimRequest
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.one_by_one import each_for_itself
from ..control.passed_over import pass_over, passed_over
from ..due_emails import claimed, due_statement, most_alone

ROUNDS = 5
"""How often a claim looks further at most, where each email that it has found fails."""


def take_apart(
    connection: Connection, database: Database, request: ClaimRequest, token: UUID
) -> Sequence[Row[int, int]]:
    """Claim one batch, without the emails whose rows fail; return each email's id and crashes."""
    email = database.tables.email
    this = update(email).where(email.c.status == Status.PENDING).values(claimed(token))

    def claim(ids: frozenset[int]) -> None:
        connection.execute(this.where(among(database, ids)))

    for _ in range(ROUNDS):
        due = _due(connection, database, request)
        faulty = each_for_itself(connection, due, claim, "claimed", most=inf)
        pass_over(database, faulty)
        if len(faulty) < len(due):
            ours = select(email.c.id, email.c.crashes).where(among(database, due))
            return connection.execute(ours.where(email.c.token == token)).all()
        if not due:
            break
    return []


def _due(connection: Connection, database: Database, request: ClaimRequest) -> list[int]:
    """Lock one batch's due emails; return those that a claim takes."""
    others = database.tables.email.c.id.not_in(sorted(passed_over(database)))
    due = due_statement(database.tables, request, database.now()).where(others)
    found = connection.execute(due).all()
    lone = [row.id for row in found if row.crashes >= ALONE_FROM][: most_alone(request)]
    return [row.id for row in found if row.crashes < ALONE_FROM or row.id in lone]
