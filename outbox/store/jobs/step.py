"""One step of a job: its changes, its cursor and its figures are committed together.

A step first locks its job's row, and skips a locked one. So two sweeps never do the same step, and
wherever a process dies the job stands before a step or after it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from ...domain.config.search_terms import Term
from ...domain.jobs.order import JobState
from ..connection.database import Database
from ..connection.list_parts import PART
from ..connection.row_locks import on_free
from ..control import audit
from . import row as rows
from .changes import Changed, change_of
from .walk import Ahead, Walk


def step(
    connection: Connection,
    database: Database,
    job_id: int,
    *,
    indexed: Collection[Term],
    most: int,
) -> bool:
    """Change up to `most` emails of a job; return False if another process has it.

    Locked emails are left, and tried once more at the job's end. Raises MissingKey, ValueError and
    InvalidMessage as `order_of` does.
    """
    row = rows.lock(connection, database, job_id)
    if row is None:
        return False
    order, upto = rows.order_of(database, row, indexed), rows.place_of(row.upto)
    walk = Walk(connection=connection, database=database, order=order, upto=upto)
    _change(walk, row, walk.ahead(rows.place_of(row.place), most))
    return True


def _change(walk: Walk, row: Row[Any], ahead: Ahead) -> None:
    before: list[int] = json.loads(row.held)
    is_over = ahead.is_end and not ahead.ids  # what is left to try are those that others had locked
    ids = before if is_over else ahead.ids
    changed, locked = _change_free(walk, ids, is_later=is_over)
    again = [] if is_over else [*before, *locked][:PART]
    left = len(before) + len(locked) - len(again) if not is_over else len(locked)
    values: dict[str, Any] = {
        "place": str(ahead.place),
        "held": json.dumps(again),
        "changed": row.changed + changed,
        "unchanged": row.unchanged + len(ids) - changed - len(locked) + left,
    }
    if ahead.is_end and not again:
        values["unchanged"] += _vanished(row, values)
        values |= _ended(walk.connection, walk.database, row, values)
    rows.change(walk.connection, walk.database, row.id, JobState.RUNNING, **values)


def _change_free(walk: Walk, ids: Sequence[int], *, is_later: bool) -> tuple[int, list[int]]:
    """Change those of the emails that are free; return how many, and those that are not free.

    Those that are tried `is_later` than they were found may have ended anew since.
    """
    if not ids:
        return 0, []
    change = change_of(walk.order.action, walk.order.statuses)

    def work(connection: Connection, database: Database, free: list[int]) -> Changed:
        return change(connection, database, sorted(walk.fitting(free)) if is_later else free)

    done, locked = on_free(walk.connection, walk.database, work, ids)
    return len(done.statuses), locked


def _vanished(row: Row[Any], values: dict[str, Any]) -> int:
    """Return how many emails that were found fitted no more when their turn came.

    The walk passes them over, as it does all that never fitted. So a job's figures add up.
    """
    untold: int = row.found - values["changed"] - values["unchanged"]
    return max(0, untold)


def _ended(
    connection: Connection, database: Database, row: Row[Any], values: dict[str, Any]
) -> dict[str, Any]:
    """Return the values of a job that is done, and note its end in the audit."""
    if row.who is not None:
        result = f"{values['changed']} changed, {values['unchanged']} unchanged"
        what = {"job": row.id, "do": row.action}
        audit.note(connection, database, who=row.who, action="end job", what=what, result=result)
    return {"state": JobState.DONE.value, "finished_at": database.now(), **rows.FORGOTTEN}
