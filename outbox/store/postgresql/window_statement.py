"""The text of the statement that records windows and opens the next ones on PostgreSQL.

It has three forms by its results, planned separately, and each has two ways with locks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum, auto

from ...domain.figures.histogram import MICROSECONDS, NO_BIN
from ..connection.database import Database
from ..connection.value_lists import array_text


class Form(Enum):
    """What the statement is given: results that are alike, any results, or several tasks'."""

    ALIKE = auto()
    EACH = auto()
    SEVERAL = auto()


# How the statement is put together: `{email}`, `{attempt}` and `{tally}` are the tables; `{free}`,
# `{bound}`, `{mine}` and `{next}` come from the way with locks, and the other words from the form.
# Where a task writes alone, it is mostly `_ALIKE` and `_IN_A_HURRY`, and reads:
#
#     WITH moment AS (SELECT clock_timestamp() + … AS now, set_config('lock_timeout', …)),
#         result AS (SELECT %(status)s AS status, %(attempts)s AS attempts, …),
#         written AS (UPDATE outbox_email AS e SET … FROM result AS r, moment
#             WHERE e.token = … AND e.status = 'sending' AND e.id = ANY(%(ids)s) RETURNING e.id),
#         entry AS (SELECT … FROM unnest(%(logged)s, …) AS l JOIN written AS w ON …),
#         logged AS (INSERT INTO outbox_attempt … SELECT … FROM entry),
#         counted AS (INSERT INTO outbox_tally … SELECT …, count(*) FROM entry GROUP BY …),
#         opened AS (UPDATE outbox_email AS e SET status = 'sending' FROM moment
#             WHERE e.id = ANY(%(following)s) AND e.token = … RETURNING e.id)
#     SELECT (the opened ids), (the written ids)
_STATEMENT = """
WITH {free}moment AS MATERIALIZED (
    SELECT clock_timestamp() + make_interval(secs => %(offset)s) AS now{bound}
), result AS MATERIALIZED (
    {result}
), written AS (
    UPDATE {email} AS e SET
        status = r.status,
        token = CASE WHEN r.status IN ('claimed', 'sending') THEN e.token END,
        due_at = CASE
            WHEN r.status <> 'pending' THEN NULL
            WHEN r.delay > 0 THEN moment.now + make_interval(secs => r.delay)
            ELSE coalesce(e.send_at, e.created_at) END,
        finished_at = CASE
            WHEN r.status NOT IN ('pending', 'claimed', 'sending') THEN moment.now END,
        attempts = e.attempts + r.attempts,
        crashes = e.crashes + r.crashes,
        unknown_count = r.unknown_count,
        waited = e.waited + ceil(r.delay)::integer
    FROM result AS r, moment
    WHERE {match} AND e.status = 'sending'{mine}
    RETURNING e.id, e.lane, e.priority, coalesce(e.send_at, e.created_at) AS due
), entry AS MATERIALIZED (
    SELECT l.*, w.lane, w.priority, w.due
    FROM unnest(
        %(logged)s::bigint[], %(started)s::bigint[], %(finished)s::bigint[],
        %(verdicts)s::text[], %(phases)s::text[], %(codes)s::smallint[],
        %(enhanced)s::text[], %(replies)s::text[], %(servers)s::text[]
    ) AS l (email_id, started, finished, verdict, phase, code, enhanced, reply, server)
    JOIN written AS w ON w.id = l.email_id
), logged AS (
    INSERT INTO {attempt}
        (email_id, started_at, finished_at, verdict, phase, code, enhanced, reply, server, worker)
    SELECT email_id, to_timestamp(started::float8 / 1000000),
        to_timestamp(finished::float8 / 1000000), verdict, phase, code, enhanced,
        reply, server, %(worker)s
    FROM entry
), counted AS (
    INSERT INTO {tally} (minute, server, route, priority, verdict, code, bin, attempts)
    SELECT finished / 60000000, server, split_part(lane, '@', 1), priority, verdict, code,
        CASE WHEN verdict = 'sent' THEN width_bucket(
            finished - (date_part('epoch', due) * 1000000)::bigint - 1, '{bounds}'::bigint[]
        ) ELSE {no_bin} END,
        count(*)
    FROM entry GROUP BY 1, 2, 3, 4, 5, 6, 7
), opened AS (
    UPDATE {email} AS e SET status = 'sending' FROM moment{follow}{next}
        AND e.status IN ('claimed', 'sending')
        AND (e.expires_at IS NULL OR e.expires_at > moment.now)
    RETURNING e.id
)
SELECT (SELECT array_agg(id) FROM opened), (SELECT array_agg(id) FROM written)
"""

_FOLLOW = """
    WHERE e.token = %(token)s"""

_ALIKE = {
    "result": """SELECT %(status)s::text AS status, %(attempts)s::smallint AS attempts,
        %(crashes)s::smallint AS crashes, %(unknown_count)s::smallint AS unknown_count,
        %(delay)s::float8 AS delay""",
    "match": "e.token = %(token)s",
    "follow": _FOLLOW,
}
"""For most windows: all emails have the same result, which stands in the statement once. The join
in `_EACH` would take an eighth of the statement's time."""

_EACH = {
    "result": """SELECT * FROM unnest(
        %(ids)s::bigint[], %(statuses)s::text[], %(attempts)s::smallint[],
        %(crashes)s::smallint[], %(unknown_count)s::smallint[], %(delays)s::float8[]
    ) AS r (id, status, attempts, crashes, unknown_count, delay)""",
    "match": "e.id = r.id AND e.token = %(token)s",
    "follow": _FOLLOW,
}
"""For a window whose emails have different results: each email is joined with its own."""

_SEVERAL = {
    "result": """SELECT * FROM unnest(
        %(ids)s::bigint[], %(tokens)s::uuid[], %(statuses)s::text[], %(attempts)s::smallint[],
        %(crashes)s::smallint[], %(unknown_count)s::smallint[], %(delays)s::float8[]
    ) AS r (id, token, status, attempts, crashes, unknown_count, delay)""",
    "match": "e.id = r.id AND e.token IS NOT DISTINCT FROM r.token",
    "follow": """, unnest(
        %(following)s::bigint[], %(owners)s::uuid[]
    ) AS n (id, token)
    WHERE e.id = n.id AND e.token IS NOT DISTINCT FROM n.token""",
}
"""For the windows of several tasks: each email is joined with its own result, and has to carry the
token of the task that brings it. It is found by its id. With `=` for tokens, PostgreSQL might read
the whole index of tokens, which looks empty to the statistics of an idle moment."""

_FORMS: dict[Hashable, dict[str, str]] = {
    Form.ALIKE: _ALIKE,
    Form.EACH: _EACH,
    Form.SEVERAL: _SEVERAL,
}

_BOUND = ", set_config('lock_timeout', '10ms', true)"  # until the end of this transaction
"""It bounds the wait for rows, and not for a locked table: see `permits`."""

_IN_A_HURRY = {
    "bound": _BOUND,
    "free": "",
    "mine": "\n        AND e.id = ANY(%(ids)s::bigint[]) -- a join alone reads the whole batch",
    "next": " AND e.id = ANY(%(following)s::bigint[])",
}
"""For nearly all windows: no row is locked. If a row is locked, the statement soon fails."""

_SEVERAL_IN_A_HURRY = {"bound": _BOUND, "free": "", "mine": "", "next": ""}
"""For several tasks: the join finds each email by itself, in the order of ids as they are given."""

_LOCKED = {
    "mine": " AND e.id = ANY(ARRAY(SELECT id FROM mine))",
    "next": " AND e.id = ANY(ARRAY(SELECT id FROM free))",
}

_PAST_OTHERS = {
    "bound": "",
    "free": """mine AS MATERIALIZED (
    SELECT e.id FROM {email} AS e
    WHERE e.id = ANY(%(ids)s::bigint[]) AND e.token = %(token)s AND e.status = 'sending'
    FOR NO KEY UPDATE SKIP LOCKED
), free AS MATERIALIZED (
    SELECT e.id FROM {email} AS e
    WHERE e.id = ANY(%(following)s::bigint[]) AND e.token = %(token)s
        AND e.status IN ('claimed', 'sending')
    FOR NO KEY UPDATE SKIP LOCKED
), """,
    **_LOCKED,
}
"""Rows that another transaction has locked are passed over. Each row is locked first, which is
expensive: two more records per email in the database's log."""

_SEVERAL_PAST_OTHERS = {
    "bound": "",
    "free": """mine AS MATERIALIZED (
    SELECT e.id FROM {email} AS e
    JOIN unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) AS r (id, token)
        ON e.id = r.id AND e.token IS NOT DISTINCT FROM r.token
    WHERE e.status = 'sending'
    FOR NO KEY UPDATE OF e SKIP LOCKED
), free AS MATERIALIZED (
    SELECT e.id FROM {email} AS e
    JOIN unnest(%(following)s::bigint[], %(owners)s::uuid[]) AS n (id, token)
        ON e.id = n.id AND e.token IS NOT DISTINCT FROM n.token
    WHERE e.status IN ('claimed', 'sending')
    FOR NO KEY UPDATE OF e SKIP LOCKED
), """,
    **_LOCKED,
}


def in_a_hurry(database: Database, form: Hashable) -> str:
    """Return the statement that fails where another transaction has locked a row."""
    locks = _SEVERAL_IN_A_HURRY if form is Form.SEVERAL else _IN_A_HURRY
    return _worded(database, locks, _FORMS[form])


def past_others(database: Database, form: Hashable) -> str:
    """Return the statement that passes over the rows that other transactions have locked."""
    locks = _SEVERAL_PAST_OTHERS if form is Form.SEVERAL else _PAST_OTHERS
    return _worded(database, locks, _FORMS[form])


def _worded(database: Database, locks: Mapping[str, str], form: Mapping[str, str]) -> str:
    names = {
        "email": database.name(database.tables.email),
        "attempt": database.name(database.tables.attempt),
        "tally": database.name(database.tables.tally),
        "bounds": array_text([str(bound) for bound in MICROSECONDS]),
        "no_bin": str(NO_BIN),
    }
    words = {key: word.format(**names) for key, word in locks.items()}  # `free` names the table
    return _STATEMENT.format(**names, **words, **form)
