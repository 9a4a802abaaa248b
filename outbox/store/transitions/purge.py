"""Retention: removes finished emails, and never any other email.

A purge walks the emails by their ids, from a stored mark, and reads no email behind the mark again.
An email that cannot be removed yet is noted as a straggler, with the moment since which its status
has stood. It is looked at again one retention later at the earliest. So a purge reads only what it
removes and what is due for another look, however large the table is. Recording a result needs no
further index for it.

The mark may pass the id of an email whose transaction is still open. A search through the ids
behind the mark, some at a time, over and over, notes these emails.

Only one purge runs at a time: it holds a lease, and each of its transactions locks the mark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, and_, delete, insert, or_, select, update

from ...domain.config.typed_values import MOST
from ...domain.delivery.status import FINISHED
from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..connection.list_parts import is_among, parts
from ..inserts.bulk import insert_rows
from ..removal import remove
from ..schema.clock import utc

PURGE_CHUNK = 500
"""The most emails that one transaction looks at, so that sending goes on beside it."""

SPAN = 10_000
"""The number of ids that one purge searches for emails that the mark passed unseen."""

LEASE = 60.0
"""Seconds of the lease, which each chunk renews. A purge that died blocks others no longer."""

REST = 0.005
"""Seconds after each chunk in which a purge leaves SQLite's write lock to others. They ask for it
about every millisecond, and a purge that asked at once would nearly always be the first."""

_BEFORE = datetime(1, 1, 1, tzinfo=UTC)


class PurgeUnderWay(Exception):
    """Raised because another purge holds the lease."""


def purge(database: Database, *, older_than: float) -> Generator[int, None, None]:
    """Remove the emails finished `older_than` seconds ago; yield how many after each transaction.

    The generator may be closed between two transactions: the next purge goes on from there. Raises
    PurgeUnderWay.
    """
    token = uuid4()
    began = database.run(lambda connection: _take(connection, database, token))
    if began is None:
        raise PurgeUnderWay("another purge is under way")
    run = _Run(database, token, began - timedelta(seconds=min(float(MOST), older_than)))
    try:
        yield from run.chunks()
    finally:
        database.run(lambda connection: _release(connection, database, token))


def _take(connection: Connection, database: Database, token: UUID) -> datetime | None:
    """Take the lease; return the database's time, or None if another purge has it."""
    table = database.tables.purge
    if connection.execute(select(table.c.id)).first() is None:
        _make(connection, database)
    mark = select(table, database.now().label("now")).with_for_update(skip_locked=True)
    row = connection.execute(mark).one_or_none()
    # A host that vanished within a chunk keeps the mark locked, and no purge may wait for it.
    if row is None or _is_held(row):
        return None
    connection.execute(update(table).values(token=token, expires_at=database.now(LEASE)))
    return utc(row.now)


def _is_held(row: Any) -> bool:
    """Whether the lease holds. More than LEASE seconds left come from a clock that was ahead."""
    if row.expires_at is None:
        return False
    return 0.0 < (utc(row.expires_at) - utc(row.now)).total_seconds() <= LEASE


def _make(connection: Connection, database: Database) -> None:
    """Write a mark before the first email, in a new database or if somebody removed the mark."""
    connection.execute(delete(database.tables.straggler))
    insert_if_absent(connection, database.tables.purge, id=1, walked=0, searched=0)


def _release(connection: Connection, database: Database, token: UUID) -> None:
    table = database.tables.purge
    held = update(table).where(table.c.token == token)
    connection.execute(held.values(token=None, expires_at=None))


@dataclass(frozen=True, kw_only=True)
class _Chunk:
    """What one transaction did. `after` is the last straggler that it looked at."""

    removed: int = 0
    more: bool = False
    after: tuple[datetime, int] = (_BEFORE, 0)


class _Run:
    """A purge that has taken the lease."""

    def __init__(self, database: Database, token: UUID, horizon: datetime) -> None:
        self._database = database
        self._token = token
        self._horizon = horizon
        self._after = (_BEFORE, 0)

    def chunks(self) -> Iterator[int]:
        """Walk and look at stragglers in turns, so that neither keeps the other waiting."""
        self._database.run(self._search)
        turns = [self._each(self._walk), self._each(self._look_again)]
        while turns:
            for turn in list(turns):
                removed = next(turn, None)
                if removed is None:
                    turns.remove(turn)
                else:
                    yield removed

    def _each(self, work: Callable[[Connection], _Chunk]) -> Iterator[int]:
        more = True
        while more:
            chunk = self._database.run(work)
            self._after = max(self._after, chunk.after)
            more = chunk.more
            yield chunk.removed
            if self._database.facts.one_writer:
                time.sleep(REST)

    def _hold(self, connection: Connection) -> Any:
        """Lock the mark until the commit; return None if another purge has taken the lease."""
        table = self._database.tables.purge
        mine = select(table, self._database.now().label("now")).where(table.c.token == self._token)
        return connection.execute(mine.with_for_update(skip_locked=True)).one_or_none()

    def _keep(self, connection: Connection, **marks: int) -> None:
        """Store new marks and renew the lease."""
        table = self._database.tables.purge
        values = {"expires_at": self._database.now(LEASE), **marks}
        connection.execute(update(table).where(table.c.token == self._token).values(values))

    def _walk(self, connection: Connection) -> _Chunk:
        """Remove or note the next emails that were created long enough ago."""
        mark = self._hold(connection)
        if mark is None:
            return _Chunk()
        email = self._database.tables.email.c
        ahead = select(email.id, email.created_at, email.status, email.finished_at)
        ahead = ahead.where(email.id > mark.walked).order_by(email.id).limit(PURGE_CHUNK)
        rows = connection.execute(ahead).all()
        # Ids are nearly in the order of creation: pass all emails up to the last old one.
        old = [place for place, row in enumerate(rows, 1) if utc(row.created_at) <= self._horizon]
        passed = rows[: max(old, default=0)]
        if not passed:
            return _Chunk()
        self._keep(connection, walked=passed[-1].id)
        gone = self._remove(connection, passed)
        self._note(connection, [row for row in passed if row.id not in gone], mark.now)
        return _Chunk(removed=len(gone), more=len(passed) == PURGE_CHUNK)

    def _look_again(self, connection: Connection) -> _Chunk:
        """Remove the next stragglers that are due for another look, or note them anew."""
        mark = self._hold(connection)
        notes = [] if mark is None else self._due(connection)
        if mark is None or not notes:
            return _Chunk()
        self._keep(connection)
        ids = [note.email_id for note in notes]
        rows = self._rows(connection, ids)
        gone = self._remove(connection, rows)
        straggler = self._database.tables.straggler
        connection.execute(
            delete(straggler).where(is_among(self._database, straggler.c.email_id, ids))
        )
        self._note(connection, [row for row in rows if row.id not in gone], mark.now)
        last = notes[-1]
        after = (utc(last.since), last.email_id)
        return _Chunk(removed=len(gone), more=len(notes) == PURGE_CHUNK, after=after)

    def _due(self, connection: Connection) -> Sequence[Any]:
        """Return the next stragglers due for another look that this run has not looked at."""
        note, (since, email_id) = self._database.tables.straggler.c, self._after
        statement = (
            select(note.email_id, note.since)
            .where(
                note.since <= self._horizon,
                note.since >= since,
                or_(note.since > since, note.email_id > email_id),
            )
            .order_by(note.since, note.email_id)
            .limit(PURGE_CHUNK)
        )
        return connection.execute(statement).all()

    def _search(self, connection: Connection) -> _Chunk:
        """Note emails that became visible behind the mark, in the next SPAN of ids."""
        mark = self._hold(connection)
        if mark is None:
            return _Chunk()
        end = min(mark.searched + SPAN, mark.walked)
        email, note = self._database.tables.email, self._database.tables.straggler
        known = and_(
            note.c.email_id == email.c.id,
            note.c.email_id > mark.searched,
            note.c.email_id <= end,
        )
        unknown = (
            select(email.c.id)
            .outerjoin(note, known)
            .where(email.c.id > mark.searched, email.c.id <= end, note.c.email_id.is_(None))
        )
        for ids in parts(connection.execute(unknown).scalars().all()):
            self._note(connection, self._rows(connection, ids), mark.now)
        searched = 0 if end == mark.walked else end
        if searched != mark.searched:
            self._keep(connection, searched=searched)
        return _Chunk()

    def _rows(self, connection: Connection, ids: Sequence[int]) -> Sequence[Any]:
        email = self._database.tables.email.c
        columns = select(email.id, email.status, email.finished_at)
        return connection.execute(columns.where(is_among(self._database, email.id, ids))).all()

    def _remove(self, connection: Connection, rows: Sequence[Any]) -> frozenset[int]:
        over = [
            row.id
            for row in rows
            if row.status in FINISHED and utc(row.finished_at) <= self._horizon
        ]
        return remove(connection, self._database, over, self._horizon)

    def _note(self, connection: Connection, rows: Sequence[Any], now: datetime) -> None:
        """Note stragglers. One retention after `since` they are due for another look.

        `since` is now for an email that is not finished, because it cannot finish earlier.
        """
        if not rows:
            return
        straggler = self._database.tables.straggler
        notes = [
            {"email_id": row.id, "since": row.finished_at if row.status in FINISHED else now}
            for row in rows
        ]
        insert_rows(connection, insert(straggler), notes)
