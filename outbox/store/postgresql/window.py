"""claimed → sending → result on PostgreSQL: one statement and one round trip per window.

It does what `record` and `window` do in a transaction, for emails with one recipient each. Results
are arrays, or one value for all emails. So the statement's text has two forms, planned separately.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from ...domain.delivery.status import Status
from ...domain.delivery.transaction import Verdict
from ...domain.figures.histogram import MICROSECONDS, NO_BIN
from ..connection.database import Database
from ..connection.error_codes import code_of
from ..connection.value_lists import array_text, quoted
from ..records import EmailResult
from ..schema.column_types import ENHANCED_LENGTH, REPLY_LENGTH, SERVER_LENGTH, WORKER_LENGTH

# How the statement is put together: `{email}`, `{attempt}` and `{tally}` are the tables. `{result}`
# and `{match}` come from `_ALIKE` or `_EACH`; `{free}`, `{bound}`, `{mine}` and `{next}` from
# `_IN_A_HURRY` or `_PAST_OTHERS`. In nearly every run it is `_ALIKE` and `_IN_A_HURRY`, and reads:
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
    WHERE {match}e.token = %(token)s AND e.status = 'sending'
        AND e.id = ANY({mine}) -- the join alone reads the whole batch
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
    UPDATE {email} AS e SET status = 'sending' FROM moment
    WHERE e.id = ANY({next}) AND e.token = %(token)s
        AND e.status IN ('claimed', 'sending')
        AND (e.expires_at IS NULL OR e.expires_at > moment.now)
    RETURNING e.id
)
SELECT (SELECT array_agg(id) FROM opened), (SELECT array_agg(id) FROM written)
"""

_ALIKE = {
    "result": """SELECT %(status)s::text AS status, %(attempts)s::smallint AS attempts,
        %(crashes)s::smallint AS crashes, %(unknown_count)s::smallint AS unknown_count,
        %(delay)s::float8 AS delay""",
    "match": "",
}
"""For most windows: all emails have the same result, which stands in the statement once. The join
in `_EACH` would take an eighth of the statement's time."""

_EACH = {
    "result": """SELECT * FROM unnest(
        %(ids)s::bigint[], %(statuses)s::text[], %(attempts)s::smallint[],
        %(crashes)s::smallint[], %(unknown_count)s::smallint[], %(delays)s::float8[]
    ) AS r (id, status, attempts, crashes, unknown_count, delay)""",
    "match": "e.id = r.id AND ",
}
"""For a window whose emails have different results: each email is joined with its own."""

_IN_A_HURRY = {
    "bound": ", set_config('lock_timeout', '10ms', true)",  # until the end of this transaction
    "free": "",
    "mine": "%(ids)s::bigint[]",
    "next": "%(following)s::bigint[]",
}
"""For nearly all windows: no row is locked. If a row is locked, the statement soon fails."""

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
    "mine": "ARRAY(SELECT id FROM mine)",
    "next": "ARRAY(SELECT id FROM free)",
}
"""Rows that another transaction has locked are passed over. Each row is locked first, which is
expensive: two more records per email in the database's log."""

_HELD = "55P03"
"""SQLSTATE lock_not_available: the lock time-out passed."""


def advance(
    database: Database,
    token: UUID,
    results: Sequence[EmailResult],
    following: Sequence[int],
    worker: str,
) -> tuple[frozenset[int], frozenset[int]]:
    """Record the last window and open the next; return the (opened, not recorded) ids."""
    is_alike = len({_end(entry) for entry in results}) <= 1
    values = {
        **(_one_for_all(results) if is_alike else _results(results)),
        **_attempts(results, worker),
        "ids": array_text([str(entry.email_id) for entry in results]),
        "offset": database.offset,
        "token": token,
        "following": array_text([str(email_id) for email_id in sorted(following)]),
    }
    try:
        statement = database.built(_in_a_hurry, is_alike)
        rows: Sequence[Any] = database.run_alone(statement, values)
    except DBAPIError as error:
        if code_of(error) != _HELD:
            raise
        rows = database.run_alone(database.built(_past_others, is_alike), values)
    [(opened, written)] = rows  # arrays or NULL: a row per email would take longer to read
    recorded = frozenset(written or ())
    missing = frozenset(e.email_id for e in results if e.email_id not in recorded)
    return frozenset(opened or ()), missing


def _in_a_hurry(database: Database, is_alike: Hashable) -> str:
    return _worded(database, _IN_A_HURRY, _ALIKE if is_alike else _EACH)


def _past_others(database: Database, is_alike: Hashable) -> str:
    return _worded(database, _PAST_OTHERS, _ALIKE if is_alike else _EACH)


def _worded(database: Database, locks: Mapping[str, str], results: Mapping[str, str]) -> str:
    names = {
        "email": database.name(database.tables.email),
        "attempt": database.name(database.tables.attempt),
        "tally": database.name(database.tables.tally),
        "bounds": array_text([str(bound) for bound in MICROSECONDS]),
        "no_bin": str(NO_BIN),
    }
    words = {key: word.format(**names) for key, word in locks.items()}  # `free` names the table
    return _STATEMENT.format(**names, **words, **results)


def _end(entry: EmailResult) -> tuple[str, int, int, int, float]:
    end = entry.outcome
    return end.status.value, end.attempts_added, end.crashes_added, end.unknown_total, end.delay


def _one_for_all(entries: Sequence[EmailResult]) -> dict[str, Any]:
    # Before the first window there are no ids, so no row gets these values; they only need types.
    unused = (Status.SENDING.value, 0, 0, 0, 0.0)
    end = _end(entries[0]) if entries else unused
    names = ("status", "attempts", "crashes", "unknown_count", "delay")
    return dict(zip(names, end, strict=True))


def _results(entries: Sequence[EmailResult]) -> dict[str, Any]:
    ends = [entry.outcome for entry in entries]
    return {
        "statuses": array_text([end.status for end in ends]),
        "attempts": array_text([str(end.attempts_added) for end in ends]),
        "crashes": array_text([str(end.crashes_added) for end in ends]),
        "unknown_count": array_text([str(end.unknown_total) for end in ends]),
        "delays": array_text([str(end.delay) for end in ends]),
    }


def _attempts(entries: Sequence[EmailResult], worker: str) -> dict[str, Any]:
    kept = [entry for entry in entries if entry.verdict is not Verdict.HALT]
    replies = [entry.outcome.reply for entry in kept]
    return {
        "logged": array_text([str(entry.email_id) for entry in kept]),
        "started": array_text([_microseconds(entry.started_at) for entry in kept]),
        "finished": array_text([_microseconds(entry.finished_at) for entry in kept]),
        "verdicts": array_text([entry.verdict for entry in kept]),
        "phases": array_text([entry.phase for entry in kept]),
        "codes": array_text([str(reply.code) for reply in replies]),
        "enhanced": array_text([quoted(reply.enhanced[:ENHANCED_LENGTH]) for reply in replies]),
        "replies": array_text([quoted(reply.text[:REPLY_LENGTH]) for reply in replies]),
        "worker": worker[:WORKER_LENGTH],
        "servers": array_text([quoted(entry.server[:SERVER_LENGTH]) for entry in kept]),
    }


def _microseconds(seconds: float) -> str:
    """Return a whole number, which is written and read much faster than a date."""
    return str(round(seconds * 1_000_000))
