"""The audit: who did what by hand, written in the transaction of the action itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, insert, select

from ..connection.database import Database
from ..report_records import AuditEntry
from ..schema.audit_tables import RESULT_LENGTH
from ..schema.clock import utc


def note(
    connection: Connection,
    database: Database,
    *,
    who: str,
    action: str,
    result: str,
    what: Mapping[str, Any],
    email_id: int | None = None,
) -> None:
    """Add an entry. `what` must have no content, because the audit is kept.

    A tag may have an address, which `erasure.audit` takes out.
    """
    values = {
        "at": database.now(),
        "who": who,
        "action": action,
        "email_id": email_id,
        "what": json.dumps(what, ensure_ascii=False, sort_keys=True),
        "result": result[:RESULT_LENGTH],
    }
    connection.execute(insert(database.tables.audit).values(**values))


def end(connection: Connection, database: Database) -> int:
    """Return the id of the newest entry; 0: there is none."""
    newest = select(func.max(database.tables.audit.c.id))
    return connection.execute(newest).scalar_one() or 0


def results_since(
    connection: Connection,
    database: Database,
    *,
    after: int,
    who: str,
    action: str,
    what: Mapping[str, Any],
) -> list[str]:
    """Return the results of a person's acts on many emails, those with ids above `after`."""
    table = database.tables.audit.c
    statement = select(table.who, table.what, table.result).where(
        table.id > after, table.who == who, table.action == action, table.email_id.is_(None)
    )
    return [
        row.result
        for row in connection.execute(statement)
        if row.who == who and json.loads(row.what) == what  # a database may ignore case
    ]


def entries(
    connection: Connection,
    database: Database,
    *,
    limit: int,
    before: int | None = None,
    email_id: int | None = None,
) -> tuple[AuditEntry, ...]:
    """Return the newest entries first: those with ids below `before`, and those of one email."""
    table = database.tables.audit
    statement = select(table).order_by(table.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(table.c.id < before)
    if email_id is not None:
        statement = statement.where(table.c.email_id == email_id)
    return tuple(
        AuditEntry(
            id=row.id,
            at=utc(row.at),
            who=row.who,
            action=row.action,
            email_id=row.email_id,
            what=json.loads(row.what),
            result=row.result,
        )
        for row in connection.execute(statement)
    )
