"""The ways on which emails wait: a step in the index for each lane and priority that holds some.

Many lanes could hold emails, a thousand domains over five routes, and few do. So nothing is asked
of a lane by its name: from each way that was found one step leads to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import BigInteger, SmallInteger, TextualSelect, text

from ...domain.priority import Priority
from ...domain.scheduling.claim_plan import LaneKey
from ..backend import backend_of
from ..connection.database import Database
from ..records import Mark
from ..schema.clock import MOMENT
from ..schema.column_types import LANE

# The index of MariaDB and MySQL is a full one, and in a recursion they go through that from the
# beginning each time. They step from group to group by themselves where nothing else is asked for.
_PORTABLE = """
SELECT priority, lane, due_at, 0 AS id FROM (
    SELECT priority, lane, min(due_at) AS due_at FROM {email} GROUP BY priority, lane
) AS way WHERE due_at IS NOT NULL
"""


def ways(database: Database, priorities: Collection[Priority] = tuple(Priority)) -> TextualSelect:
    """Select `priority`, `lane`, and `due_at` and `id` of the first email of each way.

    It takes `marked` as its parameters. On MariaDB and MySQL other priorities may be among the
    ways, the step is made for each lane and priority that has any email in the table, and the id is
    0: an email due at the same moment may stand before.
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
    """Return the parameters of `ways`: marked ones are taken for found, where their mark stands."""
    own = backend_of(database.dialect).lane_keys
    return {} if own is None else own.parameters(marks)
