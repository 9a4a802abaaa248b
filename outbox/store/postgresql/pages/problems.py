"""Groups what needs a person on PostgreSQL, in one statement: no single email leaves the database.

An email's last attempt is looked for in the index of its attempts. The sum in the order keeps the
planner from going through the whole log by its ids instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Connection, TextualSelect, text

from ...connection.database import Database
from ...records import ProblemGroup
from ...schema.clock import MOMENT

_LAST = """
LEFT JOIN LATERAL (
    SELECT a.id, a.phase, a.code, a.enhanced, a.server, a.reply FROM {attempt} AS a
    WHERE a.email_id = email.id ORDER BY a.id + 0 DESC LIMIT 1
) AS last ON true
"""

_GROUPS = """
WITH newest AS MATERIALIZED (
    SELECT id, status, recipient, attention_at FROM {email}
    WHERE attention_at IS NOT NULL ORDER BY attention_at DESC, id DESC LIMIT {most} + 1
), placed AS (
    SELECT *, row_number() OVER (ORDER BY attention_at DESC, id DESC) AS place FROM newest
), seen AS MATERIALIZED (
    SELECT email.place, email.id, email.status, email.recipient, email.attention_at AS since,
        coalesce(last.id, 0) AS attempt, coalesce(last.phase, '') AS phase,
        coalesce(last.code, 0) AS code, coalesce(last.enhanced, '') AS enhanced,
        coalesce(last.server, '') AS server, coalesce(last.reply, '') AS reply
    FROM placed AS email {last} WHERE email.place <= {most}
), sized AS (
    SELECT min(place) AS place, count(*) AS emails FROM seen
    GROUP BY status, phase, code, enhanced, server, substring(recipient FROM '[^@]*$')
)
SELECT seen.id, seen.status, seen.recipient, seen.since, seen.attempt, seen.phase, seen.code,
    seen.enhanced, seen.server, seen.reply, sized.emails,
    (SELECT count(*) FROM newest) > {most} AS more_emails
FROM sized JOIN seen USING (place) ORDER BY place
"""

_LAST_ATTEMPTS = """
SELECT email.id, last.id AS attempt, last.phase, last.code, last.enhanced, last.server
FROM unnest(CAST(:ids AS bigint[])) AS email (id) {last} WHERE last.id IS NOT NULL
"""


def group_newest(connection: Connection, database: Database, most: int) -> Iterator[ProblemGroup]:
    """Yield the groups of the newest emails, the one with the newest email first."""
    # The number is in the text: as a parameter it would hide from a prepared plan how few it is.
    rows = connection.execute(database.built(_groups, most))
    return (ProblemGroup(*row) for row in rows)


def last_attempts(
    connection: Connection, database: Database, ids: Collection[int]
) -> dict[int, tuple[int, str, int, str, str]]:
    """Return by id the last attempt of each of these emails that has one."""
    statement = database.built(_last_attempts)
    return {row[0]: tuple(row[1:]) for row in connection.execute(statement, {"ids": list(ids)})}


def _groups(database: Database, most: int) -> TextualSelect:
    return text(_worded(database, _GROUPS, most=most)).columns(since=MOMENT)


def _last_attempts(database: Database) -> Any:
    return text(_worded(database, _LAST_ATTEMPTS))


def _worded(database: Database, statement: str, **numbers: int) -> str:
    attempt = database.name(database.tables.attempt)
    email = database.name(database.tables.email)
    return statement.format(last=_LAST.format(attempt=attempt), email=email, **numbers)
