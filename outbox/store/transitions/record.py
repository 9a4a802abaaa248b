"""sending → sent, pending, claimed, failed, unknown: results, written while the token holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Update, insert, update

from ...domain.delivery.status import FINISHED, Status
from ...domain.delivery.transaction import Reply, Verdict
from ..connection.database import Database
from ..connection.endings import Ending, note_endings
from ..connection.list_parts import among
from ..connection.row_locks import lock_ids, seen
from ..due_times import first_due
from ..inserts.bulk import insert_rows
from ..records import EmailResult, WriteResult
from ..redaction import redact
from ..rollup.tally import count_logged
from ..schema.column_types import SERVER_LENGTH, WORKER_LENGTH
from ..schema.reply_columns import reply_values
from . import late_verdict


def record(
    connection: Connection,
    database: Database,
    token: UUID,
    entries: Sequence[EmailResult],
    *,
    worker: str,
) -> WriteResult:
    """Record the results of one window; return which were written, lost and locked.

    A result is `locked` if another transaction has locked its row: keep it and record it again. A
    result is lost if the lease was lost, and then nothing is written. The one exception is a late
    250: it resolves the doubt that the rescue declared, until the email is claimed again. A result
    that is already in the table, because the reply to a commit was lost, does not count as lost.

    A result is lost, too, if the server has not yet applied what opened the window, or has lost it:
    keep it, and record it again as sought.
    """
    email = database.tables.email.c
    ours = (email.token == token) & (email.status == Status.SENDING)
    if parted := [entry for entry in entries if entry.outcome.again]:
        # These emails stay `sending`, so a repeated write would match them a second time.
        news = late_verdict.not_written_yet(connection, database, token, parted, worker)
        entries = [entry for entry in entries if not entry.outcome.again or entry in news]
    if not entries:
        return WriteResult()
    ids = frozenset(entry.email_id for entry in entries)
    if sought := [entry.email_id for entry in entries if entry.is_sought]:
        _open_again(connection, database, token, sought)
    mine = _write(connection, database, ours, entries, ids)
    recorded = _of(entries, mine)
    note_endings(connection, map(ending, recorded))
    _log_attempts(connection, database, recorded, worker)
    _record_recipients(connection, database, recorded)
    ended = (entry for entry in recorded if entry.outcome.status in FINISHED)
    redact(connection, database, [entry.email_id for entry in ended if entry.redact])
    if mine == ids:
        return WriteResult(written=mine)
    locked = seen(connection, database, ours & among(database, ids - mine))
    rest = _of(entries, ids - mine - locked)
    lost = late_verdict.not_written_yet(connection, database, token, rest, worker)
    resolved, waiting = _record_late(connection, database, token, lost)
    _log_attempts(connection, database, _of(lost, resolved), worker)
    gone = frozenset(entry.email_id for entry in lost) - waiting
    return WriteResult(written=mine, locked=locked | waiting, lost=gone)


def _open_again(
    connection: Connection, database: Database, token: UUID, ids: Collection[int]
) -> None:
    """Open those of these emails that are claimed: their window was open, and they have a result.

    A replica that was promoted may lack the commit of its opening. Nobody else has the token.
    """
    email = database.tables.email
    closed = (email.c.token == token) & (email.c.status == Status.CLAIMED)
    if free := lock_ids(connection, database, closed & among(database, ids)):
        opening = update(email).where(closed, among(database, free))
        connection.execute(opening.values(status=Status.SENDING))


def ending(entry: EmailResult) -> Ending:
    """Return what a result makes of its email, with the server's codes and without its text."""
    end = entry.outcome
    if end.status is Status.SENT:
        return Ending(end.status, entry.email_id)
    code = f"{end.reply.code} {end.reply.enhanced}".rstrip() if end.reply.code else entry.verdict
    return Ending(end.status, entry.email_id, f"{entry.phase} {code}")


def _of(entries: Iterable[EmailResult], ids: Collection[int]) -> list[EmailResult]:
    return [entry for entry in entries if entry.email_id in ids]


def _alike(entries: Sequence[EmailResult]) -> dict[tuple[object, ...], list[EmailResult]]:
    """Group the entries that one statement can write. There is nearly always one group."""
    groups: dict[tuple[object, ...], list[EmailResult]] = defaultdict(list)
    for entry in entries:
        end = entry.outcome
        changes = (end.status, end.attempts_added, end.crashes_added, end.unknown_total, end.delay)
        groups[changes].append(entry)
    return groups


def _write(
    connection: Connection,
    database: Database,
    ours: ColumnElement[bool],
    entries: Sequence[EmailResult],
    ids: frozenset[int],
) -> frozenset[int]:
    """Write the outcomes of the emails that fulfil `ours` and are not locked; return their ids."""
    if database.facts.one_writer:
        groups = _alike(entries).values()
        updates = (_update(database, ours, group) for group in groups)
        written = (statement.returning(database.tables.email.c.id) for statement in updates)
        return frozenset(i for one in written for i in connection.execute(one).scalars())
    mine = lock_ids(connection, database, ours & among(database, ids))
    for group in _alike(_of(entries, mine)).values():
        connection.execute(_update(database, ours, group))
    return mine


def _update(database: Database, ours: ColumnElement[bool], group: Sequence[EmailResult]) -> Update:
    email, end = database.tables.email, group[0].outcome
    return (
        update(email)
        .where(ours, among(database, (entry.email_id for entry in group)))
        .values(
            attempts=email.c.attempts + end.attempts_added,
            crashes=email.c.crashes + end.crashes_added,
            unknown_count=end.unknown_total,
            waited=email.c.waited + ceil(end.delay),
            **_next_status(database, group[0]),
        )
    )


def _next_status(database: Database, entry: EmailResult) -> dict[str, Any]:
    email, end = database.tables.email, entry.outcome
    match end.status:
        case Status.SENDING:
            return {"status": Status.SENDING}  # the rest of its recipients follow at once
        case Status.CLAIMED:
            return {"status": Status.CLAIMED}  # its window closed before its turn
        case Status.PENDING if end.delay:
            return {"status": Status.PENDING, "token": None, "due_at": database.now(end.delay)}
        case Status.PENDING:
            # Given back: it keeps its place before emails that were enqueued later.
            return {"status": Status.PENDING, "token": None, "due_at": first_due(email)}
        case _:
            return {"status": end.status, "token": None, "finished_at": database.now()}


def _record_late(
    connection: Connection, database: Database, token: UUID, lost: Sequence[EmailResult]
) -> tuple[frozenset[int], frozenset[int]]:
    """Resolve doubts by these late results; return the resolved ids and the locked ones."""
    told = [entry for entry in lost if late_verdict.tells_of_a_copy(entry)]
    if not told:
        return frozenset(), frozenset()
    unknown = late_verdict.is_unknown_by(database, token) & among(
        database, (e.email_id for e in told)
    )
    mine = lock_ids(connection, database, unknown)
    for entry in _of(told, mine):
        late_verdict.record_late(connection, database, entry)
    return mine, seen(connection, database, unknown) - mine


def _log_attempts(
    connection: Connection, database: Database, entries: Sequence[EmailResult], worker: str
) -> None:
    rows = [
        {
            "email_id": entry.email_id,
            "started_at": _moment(entry.started_at),
            "finished_at": _moment(entry.finished_at),
            "verdict": entry.verdict,
            "phase": entry.phase,
            **reply_values(entry.outcome.reply),
            "worker": worker[:WORKER_LENGTH],
            "server": entry.server[:SERVER_LENGTH],
        }
        for entry in entries
        if entry.verdict is not Verdict.HALT  # the breaker logs it once for all emails
    ]
    insert_rows(connection, insert(database.tables.attempt), rows)
    count_logged(connection, database, rows)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _record_recipients(
    connection: Connection, database: Database, entries: Sequence[EmailResult]
) -> None:
    table = database.tables.recipient
    for entry in entries:
        for address, status, reply in entry.outcome.recipients if entry.several else ():
            connection.execute(
                update(table)
                .where(table.c.email_id == entry.email_id, table.c.address == address)
                .values(status=status, **reply_values(reply))
            )


def without_text(entry: EmailResult) -> EmailResult:
    """Return the entry without any reply's text, for a database that refuses the text."""
    end = entry.outcome
    recipients = tuple(
        (address, status, Reply(code=reply.code)) for address, status, reply in end.recipients
    )
    bare = replace(end, reply=Reply(code=end.reply.code), recipients=recipients)
    return replace(entry, outcome=bare)
