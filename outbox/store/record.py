"""sending → sent, pending, failed, unknown: results, written only while the token still holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, func, insert, select, update

from ..domain.lifecycle import Status
from ..domain.verdict import Reply, Verdict
from .bulk import insert_rows
from .claim import RETURNING
from .columns import REPLY_LENGTH
from .database import Database
from .rows import Entry


def record(
    connection: Connection,
    database: Database,
    token: UUID,
    entries: Sequence[Entry],
    *,
    worker: str,
) -> frozenset[int]:
    """Record the results of one window and return the ids whose lease was lost.

    Of those nothing is written, but that a late 250 resolves the doubt which the rescue declared,
    until the mail is claimed again.
    """
    written: set[int] = set()
    for group in _alike(entries).values():
        written |= _write(connection, database, token, group)
    lost = frozenset(entry.email_id for entry in entries) - written
    written |= _resolve_late(
        connection, database, token, [e for e in entries if e.email_id in lost]
    )
    kept = [entry for entry in entries if entry.email_id in written]
    _log(connection, database, kept, worker)
    _record_recipients(connection, database, kept)
    return lost


def _alike(entries: Sequence[Entry]) -> dict[tuple[object, ...], list[Entry]]:
    """Group the entries that one statement can write: nearly always a single group."""
    groups: dict[tuple[object, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        end = entry.conclusion
        groups[end.status, end.attempts, end.deliveries, end.doubts, end.delay].append(entry)
    return groups


def _write(connection: Connection, database: Database, token: UUID, group: list[Entry]) -> set[int]:
    email, end = database.tables.email, group[0].conclusion
    ids = sorted(entry.email_id for entry in group)
    ours = (email.c.token == token) & (email.c.status == Status.SENDING) & email.c.id.in_(ids)
    statement = (
        update(email)
        .where(ours)
        .values(
            attempts=email.c.attempts + end.attempts,
            deliveries=email.c.deliveries + end.deliveries,
            doubts=end.doubts,
            **_next_status(database, group[0]),
        )
    )
    if database.dialect in RETURNING:
        return set(connection.execute(statement.returning(email.c.id)).scalars())
    held = select(email.c.id).where(ours).order_by(email.c.id).with_for_update()
    written = set(connection.execute(held).scalars())
    connection.execute(statement)
    return written


def _next_status(database: Database, entry: Entry) -> dict[str, Any]:
    email, end = database.tables.email.c, entry.conclusion
    due: Any
    match end.status:
        case Status.SENDING:
            return {"status": Status.SENDING}  # the rest of its recipients go at once
        case Status.PENDING if end.delay:
            due = database.now(end.delay)
            return {"status": Status.PENDING, "token": None, "due_at": due}
        case Status.PENDING:
            # Given back: it keeps its place before what was enqueued after it.
            due = func.coalesce(email.send_at, email.created_at)
            return {"status": Status.PENDING, "token": None, "due_at": due}
        case _:
            return {"status": end.status, "token": None, "finished_at": database.now()}


def _resolve_late(
    connection: Connection, database: Database, token: UUID, lost: list[Entry]
) -> set[int]:
    email = database.tables.email
    resolved: set[int] = set()
    for entry in lost:
        if entry.conclusion.status is not Status.SENT or entry.several:
            continue
        statement = (
            update(email)
            .where(
                email.c.id == entry.email_id,
                email.c.doubt_token == token,
                email.c.status.in_([Status.PENDING, Status.UNKNOWN]),
            )
            .values(
                status=Status.SENT,
                due_at=None,
                doubt_token=None,
                doubts=0,
                finished_at=database.now(),
            )
        )
        if connection.execute(statement).rowcount == 1:
            resolved.add(entry.email_id)
    return resolved


def _log(connection: Connection, database: Database, entries: Sequence[Entry], worker: str) -> None:
    rows = [
        {
            "email_id": entry.email_id,
            "started_at": entry.started_at,
            "finished_at": entry.finished_at,
            "verdict": entry.verdict,
            "phase": entry.phase,
            "code": entry.conclusion.reply.code,
            "enhanced": entry.conclusion.reply.enhanced[:12],
            "reply": entry.conclusion.reply.text[:REPLY_LENGTH],
            "worker": worker[:100],
            "server": entry.server[:255],
        }
        for entry in entries
        if entry.verdict is not Verdict.HALT  # the breaker tells of it, once
    ]
    insert_rows(connection, insert(database.tables.attempt), rows)


def _record_recipients(
    connection: Connection, database: Database, entries: Sequence[Entry]
) -> None:
    table = database.tables.recipient
    for entry in entries:
        for address, status, reply in entry.conclusion.recipients if entry.several else ():
            connection.execute(
                update(table)
                .where(table.c.email_id == entry.email_id, table.c.address == address)
                .values(
                    status=status,
                    code=reply.code,
                    enhanced=reply.enhanced[:12],
                    reply=reply.text[:REPLY_LENGTH],
                )
            )


def without_text(entry: Entry) -> Entry:
    """Return the entry with every reply's text dropped: what a poisoned record falls back to."""
    end = entry.conclusion
    recipients = tuple(
        (address, status, Reply(code=reply.code)) for address, status, reply in end.recipients
    )
    bare = replace(end, reply=Reply(code=end.reply.code), recipients=recipients)
    return replace(entry, conclusion=bare)
