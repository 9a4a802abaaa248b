"""Tells whether a server refuses one sender alone: it takes another one's emails."""

from __future__ import annotations

from sqlalchemy import select

from ....domain.delivery.blame import Common
from ....domain.delivery.refusal_fingerprint import is_like
from ....domain.delivery.transaction import Phase, Verdict
from ...connection.database import Database
from .attempts import newest
from .comparison import LATELY, refusal_in


def outsider_taken(
    database: Database, server: str, common: Common, *, behind: str | None = None
) -> bool:
    """Return whether this server lately accepted another sender's email than the refused ones.

    If it has accepted one of the refused sender since, the other one tells nothing. With `behind`
    one tells only if such a refusal of this sender came before it.
    """
    if common.sender is None:
        return False
    found, email = newest(database, server), database.tables.email.c
    statement = (
        select(found.c.verdict, found.c.phase, found.c.code, found.c.enhanced, found.c.reply,
               email.sender)
        .join_from(found, database.tables.email, email.id == found.c.email_id)
        .where(found.c.finished_at > database.now(-LATELY))
        .where(found.c.finished_at < database.now(LATELY))
        .order_by(found.c.id)
    )  # fmt: skip
    rows = database.read(lambda connection: connection.execute(statement).all())
    tells, was_refused = False, behind is None
    for row in rows:
        is_ours = row.sender.lower() == common.sender
        if row.verdict == Verdict.SENT:
            tells = was_refused and not is_ours
            was_refused = behind is None or (was_refused and not is_ours)
        elif is_ours and not was_refused:
            was_refused = is_like(refusal_in(Phase(row.phase), row), behind)
    return tells
