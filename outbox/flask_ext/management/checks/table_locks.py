"""Tells for `check`, `health` and the dashboard who has locked a whole table of the outbox's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from ....store.queries import inspect_schema

if TYPE_CHECKING:
    from ....store.connection.database import Database

LEAST = 2
"""Seconds for which a statement has waited before anybody is told: a short migration takes less."""
LONG = 20
"""Seconds from which on it is a problem, and no longer a warning: requests wait as long."""


def holders(database: Database, least: float = 0.0) -> tuple[str, ...]:
    """Return a line for each session that has done so, with the remedy; none where nobody tells.

    `least`: the seconds for which a statement must have waited for it.
    """
    try:
        return tuple(inspect_schema.lock_lines(database, least))
    except SQLAlchemyError:
        return ()
