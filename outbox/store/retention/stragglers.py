"""The stragglers: emails that a walk has passed, and that are to be looked at again in their time.

Each is noted with its status and the moment since which that stands. So it is looked at again when
it is past the age of this status, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, or_, select

from ...domain.delivery.status import FINISHED, Status
from ..connection.database import Database
from ..connection.list_parts import is_among
from ..inserts.bulk import insert_rows
from ..schema.clock import utc
from .horizons import Horizons

AGAIN = 86_400.0
"""Seconds until an email is tried again that the database refused to let go. If each purge tried
them all, it would never come to the others."""

LATER = 3600.0
"""The same for an email whose removal has to wait for another transaction."""

NOT_PUT_OFF: Mapping[int, float] = {}

_Place = tuple[datetime, int]
_BEFORE: _Place = (datetime(1, 1, 1, tzinfo=UTC), 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Emails that are due for a look, and the last note of each status that was read for them."""

    ids: list[int] = field(default_factory=list)
    after: Mapping[Status, _Place] = field(default_factory=dict)


class Stragglers:
    """The notes of one walk, and how far a run has come in looking at them again."""

    def __init__(
        self, database: Database, table: Table, horizons: Horizons, usual: Horizons
    ) -> None:
        self.table = table
        self._database = database
        # An unfinished email may end in any status: look again after the shortest age. They come
        # last: with a short age all are due again in each purge, and more than it has the time for.
        self._horizons = {**horizons, Status.PENDING: max(horizons.values())}
        self._usual = usual
        self._after = dict.fromkeys(self._horizons, _BEFORE)

    def note(
        self,
        connection: Connection,
        rows: Sequence[Any],
        now: datetime,
        put_off: Mapping[int, float] = NOT_PUT_OFF,
    ) -> None:
        """Note emails. One that has not finished is noted as of now: it cannot finish earlier.

        Those that are `put_off` are looked at again so many seconds later, or when their usual age
        has come: a run by hand may be ahead of that.
        """
        notes = [
            {"email_id": row.id, "status": row.status, "since": self._since(row, put_off)}
            if row.status in FINISHED
            else {"email_id": row.id, "status": Status.PENDING, "since": now}
            for row in rows
        ]
        insert_rows(connection, insert(self.table), notes)

    def _since(self, row: Any, put_off: Mapping[int, float]) -> datetime:
        finished, status = utc(row.finished_at), Status(row.status)
        if row.id not in put_off:
            return finished
        horizon = min(self._horizons[status], self._usual[status])
        return max(finished, horizon + timedelta(seconds=put_off[row.id]))

    def due(self, connection: Connection, most: int) -> Due:
        """Return up to `most` emails that are due for a look and had none in this run."""
        ids: list[int] = []
        after: dict[Status, _Place] = {}
        for status in self._horizons:
            if len(ids) < most and (rows := self._due_of(connection, status, most - len(ids))):
                ids += [row.email_id for row in rows]
                after[status] = (utc(rows[-1].since), rows[-1].email_id)
        return Due(ids=ids, after=after)

    def looked_at(self, due: Due) -> None:
        """Go on behind these, once what became of them is committed."""
        self._after |= due.after

    def _due_of(self, connection: Connection, status: Status, most: int) -> Sequence[Any]:
        note, (since, email_id) = self.table.c, self._after[status]
        statement = (
            select(note.email_id, note.since)
            .where(
                note.status == status,
                note.since <= self._horizons[status],
                note.since >= since,
                or_(note.since > since, note.email_id > email_id),
            )
            .order_by(note.since, note.email_id)
            .limit(most)
        )
        return connection.execute(statement).all()

    def forget(self, connection: Connection, ids: Sequence[int]) -> None:
        """Remove the notes of these emails."""
        chosen = is_among(self._database, self.table.c.email_id, ids)
        connection.execute(delete(self.table).where(chosen))
