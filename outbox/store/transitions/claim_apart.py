"""pending → claimed: a batch beside emails whose rows alone fail.

A trigger of the app's may do so. One such row would fail the claim of all. So each is found, and
passed over for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from uuid import UUID

from sqlalchemy import Connection, Row, select, update

from ...domain.delivery.outcome import ALONE_FROM
from ...domain.delivery.status import Status
from ...domain.scheduling.claim_plan import ClaimRequest
from ..connection.database import Database
from ..connection.error_codes import describe, may_be_of_a_row
from ..connection.list_parts import among
from ..connection.one_by_one import each_for_itself
from ..control.passed_over import pass_over, passed_over
from ..due_emails import claimed, due_statement, most_alone
from ..harmless_log import harmless_log
from ..records import Claim

ROUNDS = 5
"""How often a claim looks further at most, where each email that it has found fails."""

MOST = 50
"""How many emails may fail before any passes. After that the whole table is taken for what fails,
and not one statement is spent on each email that waits. Refused data is never the table's."""


def claim_each(
    database: Database,
    requests: Sequence[ClaimRequest],
    work: Callable[..., list[Claim]],
) -> list[Claim]:
    """Do `work` for each request in a transaction of its own; return all claims.

    One of whose emails none passes keeps no other one. Its error is logged, and only raised where
    nothing was claimed. What was claimed is committed, and is returned also in an outage.
    """
    claims: list[Claim] = []
    failed: list[Exception] = []
    for request in requests:
        try:
            claims += database.run(partial(work, some=[request]))
        except Exception as error:  # noqa: BLE001  (raised below, unless something was claimed)
            failed.append(error)
            if not may_be_of_a_row(error):
                break
    if failed and not claims:
        raise failed[0]
    for each in failed:
        harmless_log.error("outbox: emails of a lane could not be claimed (%s)", describe(each))
    return claims


def take_apart(
    connection: Connection, database: Database, request: ClaimRequest, token: UUID
) -> Sequence[Row[int, int]]:
    """Claim one batch, without the emails whose rows fail; return each email's id and crashes.

    Raises the error where `MOST` emails fail, and none passes. None of these is passed over: each
    is claimed as soon as the table is well again.
    """
    email = database.tables.email
    this = update(email).where(email.c.status == Status.PENDING).values(claimed(token))

    def claim(ids: frozenset[int]) -> None:
        connection.execute(this.where(among(database, ids)))

    found = frozenset[int]()
    for _ in range(ROUNDS):
        due = _due(connection, database, request, but=found)
        most = max(1, MOST - len(found))
        faulty = each_for_itself(connection, due, claim, "claimed", most=most)
        found |= faulty
        if len(faulty) < len(due):
            pass_over(database, found)
            ours = select(email.c.id, email.c.crashes).where(among(database, due))
            return connection.execute(ours.where(email.c.token == token)).all()
        if not due:
            break
    pass_over(database, found)
    return []


def _due(
    connection: Connection, database: Database, request: ClaimRequest, *, but: Collection[int]
) -> list[int]:
    """Lock one batch's due emails; return those that a claim takes."""
    others = database.tables.email.c.id.not_in(sorted(passed_over(database).union(but)))
    due = due_statement(database.tables, request, database.now()).where(others)
    found = connection.execute(due).all()
    lone = [row.id for row in found if row.crashes >= ALONE_FROM][: most_alone(request)]
    return [row.id for row in found if row.crashes < ALONE_FROM or row.id in lone]
