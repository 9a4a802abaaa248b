"""What needs a person: failed and unknown emails, grouped by what went wrong, and where."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from ...domain.delivery.status import Status
from ...domain.header.address import domain_of
from ...domain.search.filters import Filters
from ...domain.search.last_attempt import reply_of
from ..backend import backend_of
from ..connection.database import Database
from ..connection.list_parts import is_among, parts
from ..records import ProblemGroup
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
    group_newest = backend_of(database.dialect).group_problems or _group_newest
    looked_at, more_emails = 0, False
    found = dict[tuple[Any, ...], ProblemGroup]()
    for one in group_newest(connection, database, newest):
        looked_at, more_emails = looked_at + one.emails, one.more_emails
        key = (one.status, one.phase, one.code, one.enhanced, one.server, domain_of(one.recipient))
        known = found.get(key)
        found[key] = one if known is None else known._replace(emails=known.emails + one.emails)
    shown = list(found.values())[:limit]
    replies = _replies(connection, database, [one.attempt for one in shown if one.reply is None])
    return Problems(
        groups=tuple(_problem(one, replies) for one in shown),
        emails=looked_at,
        more_emails=more_emails,
        more_groups=len(found) > len(shown),
    )


def _group_newest(connection: Connection, database: Database, most: int) -> Iterator[ProblemGroup]:
    """Yield the newest emails, each as a group of its own."""
    rows = _newest(connection, database, most)
    looked_at = rows[:most]
    last = last_attempts(connection, database, [row.id for row in looked_at])
    for row in looked_at:
        attempt, phase, code, enhanced, server = last.get(row.id, _NONE)
        yield ProblemGroup(
            id=row.id,
            status=row.status,
            recipient=row.recipient,
            since=row.attention_at,
            attempt=attempt,
            phase=phase,
            code=code,
            enhanced=enhanced,
            server=server,
            reply=None,
            emails=1,
            more_emails=len(rows) > most,
        )


def of_group(
    connection: Connection, database: Database, filters: Filters, recipients: Mapping[int, str]
) -> frozenset[int]:
    """Return which of these emails, by their first recipients, are of the group that is wanted."""
    ids = [i for i, to in recipients.items() if filters.domain in (None, domain_of(to))]
    wanted = filters.server, filters.reply, filters.phase
    if wanted == (None, None, None):
        return frozenset(ids)
    last = last_attempts(connection, database, ids)
    return frozenset(i for i in ids if _is_like(last.get(i, _NONE), *wanted))


def _is_like(attempt: _Last, server: str | None, reply: str | None, phase: str | None) -> bool:
    _, its_phase, code, enhanced, its_server = attempt
    return (
        server in (None, its_server)
        and reply in (None, reply_of(code, enhanced))
        and phase in (None, its_phase)
    )


def _problem(group: ProblemGroup, replies: Mapping[int, str]) -> Problem:
    reply = replies.get(group.attempt, "") if group.reply is None else group.reply
    return Problem(
        status=Status(group.status),
        phase=group.phase,
        code=group.code,
        enhanced=group.enhanced,
        server=group.server,
        domain=domain_of(group.recipient),
        emails=group.emails,
        id=group.id,
        since=utc(group.since),
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


def last_attempts(
    connection: Connection, database: Database, ids: Collection[int]
) -> dict[int, _Last]:
    """Return by id the last attempt of each of these emails that has one.

    The attempts are found by their emails first, and read by their own ids in a second statement:
    a planner that joins may go through the whole log.
    """
    if (own := backend_of(database.dialect).last_attempts) is not None:
        return own(connection, database, ids)
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
