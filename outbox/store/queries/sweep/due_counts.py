"""Counts due emails by lane and priority, from the first one up to a limit for each pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, SmallInteger, TextualSelect, bindparam, text

from ....domain.priority import Priority
from ....domain.scheduling.claim_plan import LaneKey
from ...backend import backend_of
from ...connection.database import Database
from ...records import Mark
from ...schema.clock import MOMENT
from ...schema.column_types import LANE


@dataclass(frozen=True, kw_only=True, slots=True)
class DueCount:
    """The number of a lane's and priority's due emails; no counted email stands before `first`."""

    emails: int
    first: Mark


_TERM = """
SELECT :priority{place} AS priority, :lane{place} AS lane,
    count(*) AS emails, min(due_at) AS due_at, min(id) AS id
FROM (
    SELECT due_at, id FROM {email}
    WHERE priority = :priority{place} AND lane = :lane{place} AND due_at <= :now
    ORDER BY due_at, id LIMIT :limit{place}
) AS seen{place}
"""


def count_due(
    connection: Connection,
    database: Database,
    now: datetime,
    starts: Mapping[LaneKey, Mark],
    limits: Mapping[LaneKey, int],
) -> dict[LaneKey, DueCount]:
    """Count, in one statement, the emails that are due now, for each lane and priority.

    Counting begins at the mark in `starts`. Pairs without due emails are left out. On databases
    other than PostgreSQL the statement has a term for each pair, and begins at its first email.
    """
    if not starts:
        return {}
    statement = database.built(count_statement, len(starts))
    values = {"now": now, **count_parameters(database, starts, limits)}
    return {
        (row.lane, Priority(row.priority)): DueCount(
            emails=row.emails, first=Mark(row.due_at, row.id)
        )
        for row in connection.execute(statement, values)
        if row.emails
    }


def count_statement(database: Database, ways: int) -> TextualSelect:
    """Return the statement for this many pairs. It takes `now` and the `count_parameters`."""
    email = database.name(database.tables.email)
    if (own := backend_of(database.dialect).due_counts) is not None:
        statement = own.STATEMENT.format(email=email)
    else:
        terms = (_TERM.format(email=email, place=n) for n in range(ways))
        statement = " UNION ALL ".join(terms)
    return (
        text(statement)
        .bindparams(bindparam("now", type_=MOMENT))
        .columns(
            priority=SmallInteger(), lane=LANE, emails=BigInteger(), due_at=MOMENT, id=BigInteger()
        )
    )


def count_parameters(
    database: Database, starts: Mapping[LaneKey, Mark], limits: Mapping[LaneKey, int]
) -> dict[str, Any]:
    """Return the parameters that `count_statement` takes for these lanes and priorities."""
    if (own := backend_of(database.dialect).due_counts) is not None:
        return own.parameters(starts, limits)
    values: dict[str, Any] = {}
    for place, (lane, priority) in enumerate(starts):
        values[f"lane{place}"] = lane
        values[f"priority{place}"] = int(priority)
        values[f"limit{place}"] = limits[lane, priority]
    return values
