"""A walk over the emails by their ids, from a stored mark on, in short transactions.

It reads no email behind its mark again. An email whose time has not come is noted as a straggler,
and looked at again when it has. So a walk reads only what it removes and what is due for another
look, however large the table is. Recording a result needs no further index for it.

The mark may pass the id of an email whose transaction is still open. A search through the ids
behind the mark, some at a time, over and over, notes these emails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Table, and_, select

from ..bounded_waits import bounded
from ..connection.database import Database
from ..connection.list_parts import is_among, parts
from ..connection.one_by_one import each_for_itself
from ..schema.clock import utc
from ..schema.tables import Tables
from . import mark as marks
from .horizons import Horizons, is_past
from .stragglers import AGAIN, LATER, Due, Stragglers

CHUNK = 500
"""The most emails that one transaction looks at, so that sending goes on beside it."""

LOCK_WAIT = 0.1
"""Seconds for which a removal waits for a row that another transaction holds."""

REST = 0.005
"""Seconds after each chunk in which a purge leaves SQLite's write lock to others. They ask for it
about every millisecond, and a purge that asked at once would nearly always be the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a walk removes, and where its progress is kept."""

    walked: str  # the mark's columns
    searched: str
    span: int  # how many ids one run searches for emails that the mark passed unseen
    stragglers: Callable[[Tables], Table]
    remove: Callable[[Connection, Database, Collection[int], Horizons], frozenset[int]]
    is_to_go: Callable[[Database], ColumnElement[bool]]  # an email has something to remove


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chunk:
    """What one transaction did."""

    removed: int = 0
    more: bool = False
    looked_at: Due = field(default_factory=Due)


class Walk:
    """One run of a walk, under the purge's lease."""

    def __init__(
        self, database: Database, token: UUID, goal: Goal, horizons: Horizons, usual: Horizons
    ) -> None:
        self._database = database
        self._token = token
        self._goal = goal
        self._horizons = horizons
        self._latest = max(horizons.values())
        self._stragglers = Stragglers(database, goal.stragglers(database.tables), horizons, usual)
        self._put_off: dict[int, float] = {}  # in this run, which tries none of them again

    def turns(self) -> list[Iterator[int]]:
        """Search for missed emails; return the walk and the looks at stragglers, to take in turns.

        Each yields how many emails a transaction removed. Raises PurgeUnderWay.
        """
        while not self._database.run(self._search):
            time.sleep(REST)
        return [self._each(self._go_on), self._each(self._look_again)]

    def _each(self, work: Callable[[Connection], _Chunk | None]) -> Iterator[int]:
        more = True
        while more:
            chunk = self._database.run(work)
            if chunk is None:  # another transaction has the mark: try again
                yield 0
                time.sleep(REST)
                continue
            self._stragglers.looked_at(chunk.looked_at)
            more = chunk.more
            yield chunk.removed
            if self._database.facts.one_writer:
                time.sleep(REST)

    def _lock(self, connection: Connection) -> Any:
        return marks.lock(connection, self._database, self._token)

    def _keep(self, connection: Connection, **changed: int) -> None:
        marks.keep(connection, self._database, self._token, **changed)

    def _go_on(self, connection: Connection) -> _Chunk | None:
        """Remove or note the next emails that were created long enough ago."""
        mark = self._lock(connection)
        if mark is None:
            return None
        email = self._database.tables.email.c
        walked = getattr(mark, self._goal.walked)
        ahead = select(*self._columns(), email.created_at).where(email.id > walked)
        rows = connection.execute(ahead.order_by(email.id).limit(CHUNK)).all()
        # Ids are nearly in the order of creation: pass all emails up to the last old one.
        old = [place for place, row in enumerate(rows, 1) if utc(row.created_at) <= self._latest]
        passed = rows[: max(old, default=0)]
        if not passed:
            return _Chunk()
        self._keep(connection, **{self._goal.walked: passed[-1].id})
        removed = self._remove_or_note(connection, passed, mark)
        return _Chunk(removed=removed, more=len(passed) == CHUNK)

    def _look_again(self, connection: Connection) -> _Chunk | None:
        """Remove the next stragglers that are due for another look, or note them anew."""
        mark = self._lock(connection)
        if mark is None:
            return None
        due = self._stragglers.due(connection, CHUNK)
        if not due.ids:
            return _Chunk()
        self._keep(connection)
        rows = self._rows(connection, due.ids)
        self._stragglers.forget(connection, due.ids)
        removed = self._remove_or_note(connection, rows, mark)
        return _Chunk(removed=removed, more=len(due.ids) == CHUNK, looked_at=due)

    def _remove_or_note(self, connection: Connection, rows: Sequence[Any], mark: Any) -> int:
        rows = [row for row in rows if row.is_to_go]
        past = [row.id for row in rows if is_past(row, self._horizons)]
        over = [email_id for email_id in past if email_id not in self._put_off]
        gone, put_off = self._remove(connection, over)
        self._put_off |= put_off
        left = [row for row in rows if row.id not in gone]
        self._stragglers.note(connection, left, mark.now, self._put_off)
        return len(gone)

    def _remove(
        self, connection: Connection, ids: Collection[int]
    ) -> tuple[frozenset[int], dict[int, float]]:
        """Remove these; return what is gone, and for how long others are put off.

        A table of the app's own may point to an email. Then the database refuses to let it go, or
        waits for a transaction that holds a row of that table. That keeps no other email.
        """
        gone, blocked = list[int](), set[int]()
        if not ids:
            return frozenset(), {}

        def remove(some: frozenset[int]) -> None:
            removed = self._goal.remove(connection, self._database, some, self._horizons)
            if removed and (checks_now := self._database.facts.checks_now):
                connection.exec_driver_sql(checks_now)  # the commit would fail for all of them
            gone.extend(removed)

        with bounded(connection, self._database, LOCK_WAIT):
            refused = each_for_itself(connection, ids, remove, "purged", blocked=blocked)
        return frozenset(gone), dict.fromkeys(refused, AGAIN) | dict.fromkeys(blocked, LATER)

    def _search(self, connection: Connection) -> bool:
        """Note emails that became visible behind the mark, in the next span of ids.

        False: another transaction has the mark.
        """
        mark = self._lock(connection)
        if mark is None:
            return False
        walked, searched = (
            getattr(mark, name) for name in (self._goal.walked, self._goal.searched)
        )
        end = min(searched + self._goal.span, walked)
        email, note = self._database.tables.email, self._stragglers.table
        here = note.c.email_id == email.c.id
        known = and_(here, note.c.email_id > searched, note.c.email_id <= end)
        unknown = (
            select(email.c.id)
            .outerjoin(note, known)
            .where(email.c.id > searched, email.c.id <= end, note.c.email_id.is_(None))
            .where(self._goal.is_to_go(self._database))
        )
        for ids in parts(connection.execute(unknown).scalars().all()):
            self._stragglers.note(connection, self._rows(connection, ids), mark.now)
        turned = 0 if end == walked else end
        if turned != searched:
            self._keep(connection, **{self._goal.searched: turned})
        return True

    def _columns(self) -> list[ColumnElement[Any]]:
        email = self._database.tables.email.c
        is_to_go = self._goal.is_to_go(self._database).label("is_to_go")
        return [email.id, email.status, email.finished_at, is_to_go]

    def _rows(self, connection: Connection, ids: Sequence[int]) -> Sequence[Any]:
        chosen = is_among(self._database, self._database.tables.email.c.id, ids)
        return connection.execute(select(*self._columns()).where(chosen)).all()
