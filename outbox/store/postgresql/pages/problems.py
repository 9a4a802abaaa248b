"""Groups what needs a person on PostgreSQL, in one statement: no single email leaves the database.

The attempts are found by one pass through the index of their emails. For a join, a planner may go
through the whole log instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlalchemy import Connection, TextClause, TextualSelect, text

from ...connection.database import Database
from ...records import ProblemGroup
from ...schema.clock import MOMENT

_LAST = """
SELECT DISTINCT ON (a.email_id) a.email_id, a.id, a.phase, a.code, a.enhanced, a.server{reply}
FROM {attempt} AS a WHERE a.email_id = ANY ({ids}) ORDER BY a.email_id, a.id DESC
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
    FROM placed AS email LEFT JOIN ({last}) AS last ON last.email_id = email.id
    WHERE email.place <= {most}
), sized AS (
    SELECT min(place) AS place, count(*) AS emails FROM seen
    GROUP BY status, phase, code, enhanced, server, {domain}
)
SELECT seen.id, seen.status, seen.recipient, seen.since, seen.attempt, seen.phase, seen.code,
    seen.enhanced, seen.server, seen.reply, sized.emails,
    (SELECT count(*) FROM newest) > {most} AS more_emails
FROM sized JOIN seen USING (place) ORDER BY place
"""

_IDS_OF_NEWEST = "ARRAY(SELECT id FROM newest)"
_GIVEN_IDS = "CAST(:ids AS bigint[])"

_DOMAIN = "reverse(split_part(reverse(recipient), '@', 1))"
"""A pattern would take twice as long, and to count from the end needs PostgreSQL 14."""


def group_newest(connection: Connection, database: Database, most: int) -> Iterator[ProblemGroup]:
    """Yield the groups of the newest emails, the one with the newest email first."""
    # The number is in the text: as a parameter it would hide from a prepared plan how few it is.
    rows = connection.execute(database.built(_groups, most))
    return (ProblemGroup(*row) for row in rows)


def last_attempts(
    connection: Connection, database: Database, ids: Collection[int]
) -> dict[int, tuple[int, str, int, str, str]]:
    """Return by id the last attempt of each of these emails that has one."""
    rows = connection.execute(database.built(_last_attempts), {"ids": list(ids)})
    return {row[0]: row[1:] for row in rows}


def _groups(database: Database, most: int) -> TextualSelect:
    email, last = database.name(database.tables.email), _last(database, _IDS_OF_NEWEST, ", a.reply")
    statement = _GROUPS.format(email=email, last=last, domain=_DOMAIN, most=most)
    return text(statement).columns(since=MOMENT)


def _last_attempts(database: Database) -> TextClause:
    return text(_last(database, _GIVEN_IDS))


def _last(database: Database, ids: str, reply: str = "") -> str:
    return _LAST.format(attempt=database.name(database.tables.attempt), ids=ids, reply=reply)
