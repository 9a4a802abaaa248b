"""Finds the pairs of lane and priority in which emails wait, called ways: one index step for each.

Many lanes could hold emails, such as a thousand domains over five routes, but few do. So no lane is
asked for by its name: from each way that was found, one step in the index leads to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import BigInteger, SmallInteger, TextualSelect, text

from ....domain.priority import Priority
from ....domain.scheduling.claim_plan import LaneKey
from ...backend import backend_of
from ...connection.database import Database
from ...records import Mark
from ...schema.clock import MOMENT
from ...schema.column_types import LANE

# MariaDB and MySQL have a full index, and a recursion reads it from the beginning each time. With
# only a GROUP BY they step from group to group instead (a loose index scan).
_PORTABLE = """
SELECT priority, lane, due_at, 0 AS id FROM (
    SELECT priority, lane, min(due_at) AS due_at FROM {email} GROUP BY priority, lane
) AS way WHERE due_at IS NOT NULL
"""


def ways(database: Database, priorities: Collection[Priority] = tuple(Priority)) -> TextualSelect:
    """Return the statement for `priority`, `lane`, `due_at` and `id` of each way's first email.

    Its parameters are those of `marked`. On MariaDB and MySQL other priorities may be among the
    ways. There is one step for each way that has any email in the table. The id is 0, because
    another email may be due at the same moment.
    """
    own = backend_of(database.dialect).lane_keys
    statement = (_PORTABLE if own is None else own.STATEMENT).format(
        email=database.name(database.tables.email),
        priorities=", ".join(f"({int(priority)})" for priority in priorities),
    )
    return text(statement).columns(
        priority=SmallInteger(), lane=LANE, due_at=MOMENT, id=BigInteger()
    )


def marked(database: Database, marks: Mapping[LaneKey, Mark]) -> dict[str, Any]:
    """Return the parameters of `ways`. Marked ways are returned unread, with their marks."""
    own = backend_of(database.dialect).lane_keys
    return {} if own is None else own.parameters(marks)
