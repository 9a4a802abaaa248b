"""Tells for `check`, `health` and the dashboard what keeps each statement waiting.

That is a session that has locked a whole table of the outbox's, or a synchronous replica that is
gone. No statement fails, and nothing of it is in the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from ....store.queries import inspect_schema

if TYPE_CHECKING:
    from ....store.connection.database import Database

LEAST = 2
"""Seconds for which a statement has waited before anybody is told: a short migration takes less."""
LONG = 20
"""Seconds from which on it is a problem of the health, and no longer a warning: so long do requests
wait."""


def holders(database: Database, least: float = 0.0) -> tuple[str, ...]:
    """Return a line for each session that has done so, with the remedy; none where nobody tells.

    `least`: the seconds for which a statement must have waited for it.
    """
    try:
        return tuple(inspect_schema.lock_lines(database, least))
    except SQLAlchemyError:
        return ()


def commits(database: Database, least: float = LEAST) -> tuple[str, ...]:
    """Return a line, with the remedy, if commits wait for a replica; none where nobody tells."""
    try:
        return tuple(inspect_schema.commit_lines(database, least))
    except SQLAlchemyError:
        return ()
