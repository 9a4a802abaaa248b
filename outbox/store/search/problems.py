"""What needs a person: failed and unknown emails, grouped by what went wrong, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from ...domain.delivery.status import Status
from ...domain.header.address import domain_of
from ...domain.search.filters import Filters
from ...domain.search.last_attempt import reply_of
from ..connection.database import Database
from ..connection.list_parts import is_among, parts
from ..report_records import Problem, Problems
from ..schema.clock import utc

MOST_LOOKED_AT = 10_000
"""The most emails that are grouped: those that came to need a person last."""


_Last = tuple[int, str, int, str, str]
"""An email's last attempt: its id, phase, code, enhanced code and server."""

_NONE: _Last = (0, "", 0, "", "")
"""Of an email that no server has judged: its workers were lost, or its recipients suppressed."""


def problems(
    connection: Connection, database: Database, limit: int, newest: int = MOST_LOOKED_AT
) -> Problems:
    """Return up to `limit` groups of the `newest` emails, the one with the newest email first.

    Only the index of emails that need a person is searched, and of each its last attempt is read.
    """
    rows = _newest(connection, database, newest)
    looked_at = rows[:newest]
    last = _last_attempts(connection, database, [row[0] for row in looked_at])
    sizes, first = Counter[tuple[Any, ...]](), dict[tuple[Any, ...], tuple[Any, _Last]]()
    for row in looked_at:
        email_id, status, recipient, _ = row
        attempt = last.get(email_id, _NONE)
        group = (status, *attempt[1:], domain_of(recipient))
        sizes[group] += 1
        if group not in first:
            first[group] = row, attempt
    shown = list(first.items())[:limit]
    replies = _replies(connection, database, [attempt[0] for _, (_, attempt) in shown])
    found = tuple(
        _problem(group, sizes[group], row, replies.get(attempt[0], ""))
        for group, (row, attempt) in shown
    )
    return Problems(
        groups=found,
        emails=len(looked_at),
        more_emails=len(rows) > len(looked_at),
        more_groups=len(first) > len(found),
    )


def of_group(
    connection: Connection, database: Database, filters: Filters, recipients: Mapping[int, str]
) -> frozenset[int]:
    """Return which of these emails, by their first recipients, are of the group that is wanted."""
    ids = [i for i, to in recipients.items() if filters.domain in (None, domain_of(to))]
    wanted = filters.server, filters.reply, filters.phase
    if wanted == (None, None, None):
        return frozenset(ids)
    last = _last_attempts(connection, database, ids)
    return frozenset(i for i in ids if _is_like(last.get(i, _NONE), *wanted))


def _is_like(attempt: _Last, server: str | None, reply: str | None, phase: str | None) -> bool:
    _, its_phase, code, enhanced, its_server = attempt
    return (
        server in (None, its_server)
        and reply in (None, reply_of(code, enhanced))
        and phase in (None, its_phase)
    )


def _problem(group: tuple[Any, ...], emails: int, newest: Any, reply: str) -> Problem:
    status, phase, code, enhanced, server, domain = group
    return Problem(
        status=Status(status),
        phase=phase,
        code=code,
        enhanced=enhanced,
        server=server,
        domain=domain,
        emails=emails,
        id=newest.id,
        since=utc(newest.attention_at),
        reply=reply,
    )


def _newest(connection: Connection, database: Database, most: int) -> Sequence[Any]:
    email = database.tables.email.c
    statement = (
        select(email.id, email.status, email.recipient, email.attention_at)
        .where(email.attention_at.is_not(None))
        .order_by(email.attention_at.desc(), email.id.desc())
        .limit(most + 1)
    )
    return connection.execute(statement).all()


def _last_attempts(
    connection: Connection, database: Database, ids: Collection[int]
) -> dict[int, _Last]:
    """Return by id the last attempt of each of these emails that has one.

    The attempts are found by their emails first, and read by their own ids in a second statement.
    To look for the highest id at once, or to join, PostgreSQL may go through the whole log.
    """
    attempt = database.tables.attempt.c
    columns = (attempt.id, attempt.phase, attempt.code, attempt.enhanced, attempt.server)
    found: dict[int, _Last] = {}
    for part in parts(sorted(ids)):
        highest = select(func.max(attempt.id)).group_by(attempt.email_id)
        of_these = highest.where(is_among(database, attempt.email_id, part))
        last = connection.execute(of_these).scalars().all()
        statement = select(attempt.email_id, *columns).where(is_among(database, attempt.id, last))
        found |= {row[0]: row[1:] for row in connection.execute(statement).all()}
    return found


def _replies(
    connection: Connection, database: Database, attempts: Collection[int]
) -> dict[int, str]:
    attempt = database.tables.attempt.c
    found: dict[int, str] = {}
    for part in parts(sorted(set(attempts))):
        statement = select(attempt.id, attempt.reply).where(is_among(database, attempt.id, part))
        found |= {row.id: row.reply for row in connection.execute(statement)}
    return found
