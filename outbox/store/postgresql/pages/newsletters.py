"""Reads the newsletters on PostgreSQL: one statement for their tags, and one for all their figures.

It reads what `search/tags.py` and `search/tag_progress.py` read step by step. Each look-up is bound
to the index of tags by its order and by a comparison of tag and id. With `tag = …` alone, a planner
may go through all emails in the order of their ids until it meets the tag.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, String, TextualSelect, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from ....domain.priority import Priority
from ...connection.database import Database
from ...records import Depth, TagFinding
from ...schema.clock import MOMENT

_LAST_OF_TAG = """
SELECT e.id FROM {email} AS e WHERE e.tag >= given.tag AND e.tag <= given.tag
ORDER BY e.tag DESC, e.id DESC LIMIT 1
"""

_TAGS = """
WITH RECURSIVE ends AS MATERIALIZED (
    SELECT min(id) AS first, max(id) AS last FROM {email}
), probe (id) AS (
    SELECT first FROM ends WHERE first IS NOT NULL
    UNION ALL
    SELECT probe.id + step FROM probe, (
        SELECT last, greatest(1, (last - first) / ({probes} - 1)) AS step FROM ends
    ) AS each WHERE probe.id + step <= last
), looked_at AS (
    (SELECT priority, tag FROM {email} ORDER BY id DESC LIMIT {newest})
    UNION ALL
    (SELECT priority, tag FROM {email} WHERE attention_at IS NOT NULL
        ORDER BY attention_at DESC, id DESC LIMIT {newest})
    UNION ALL
    (SELECT priority, tag FROM {email} WHERE due_at IS NOT NULL AND priority = {bulk}
        ORDER BY priority, lane, due_at, id LIMIT {waiting})
    UNION ALL
    (SELECT priority, tag FROM {email} WHERE due_at IS NOT NULL AND priority = {bulk}
        ORDER BY priority DESC, lane DESC, due_at DESC, id DESC LIMIT {waiting})
    UNION ALL
    SELECT found.priority, found.tag FROM probe CROSS JOIN LATERAL (
        SELECT e.priority, e.tag FROM {email} AS e WHERE e.id >= probe.id ORDER BY e.id LIMIT 1
    ) AS found
), given AS MATERIALIZED (
    SELECT DISTINCT tag FROM looked_at WHERE priority = {bulk} AND tag IS NOT NULL
)
SELECT given.tag, last.id FROM given CROSS JOIN LATERAL ({last}) AS last
"""

_PROGRESS = """
WITH RECURSIVE tagged AS MATERIALIZED (
    SELECT given.tag, first.id AS first, first.created_at AS first_at, last.id AS last,
        last.created_at AS last_at
    FROM unnest(:tags) AS given (tag)
    CROSS JOIN LATERAL (
        SELECT e.id, e.created_at FROM {email} AS e
        WHERE e.tag >= given.tag AND e.tag <= given.tag ORDER BY e.tag, e.id LIMIT 1
    ) AS first
    CROSS JOIN LATERAL (
        SELECT e.id, e.created_at FROM {email} AS e
        WHERE e.tag >= given.tag AND e.tag <= given.tag ORDER BY e.tag DESC, e.id DESC LIMIT 1
    ) AS last
), newest AS MATERIALIZED (
    SELECT tagged.tag, late.status, count(*) AS emails FROM tagged CROSS JOIN LATERAL (
        SELECT e.status FROM {email} AS e WHERE e.tag >= tagged.tag AND e.tag <= tagged.tag
        ORDER BY e.tag DESC, e.id DESC LIMIT {counted} + 1
    ) AS late GROUP BY tagged.tag, late.status
), large AS MATERIALIZED (
    SELECT tagged.*, greatest(1, (last - first) / ({sample} - 1)) AS step FROM tagged
    WHERE (SELECT sum(emails) FROM newest WHERE newest.tag = tagged.tag) > {counted}
), probe (tag, id, last, step) AS (
    SELECT tag, first, last, step FROM large
    UNION ALL
    SELECT tag, id + step, last, step FROM probe WHERE id + step <= last
), needy AS MATERIALIZED (
    SELECT e.tag, e.status FROM {email} AS e
    WHERE e.attention_at IS NOT NULL AND EXISTS (SELECT FROM large)
    ORDER BY e.attention_at DESC, e.id DESC LIMIT {problems}
)
SELECT 'ends' AS what, tag, '' AS status, 0 AS emails, first_at, last_at FROM tagged
UNION ALL
SELECT 'newest', tag, status, emails, NULL, NULL FROM newest
UNION ALL
SELECT 'sample', probe.tag, found.status, count(*), NULL, NULL FROM probe CROSS JOIN LATERAL (
    SELECT e.status FROM {email} AS e WHERE (e.tag, e.id) >= (probe.tag, probe.id)
        AND e.tag <= probe.tag ORDER BY e.tag, e.id LIMIT 1
) AS found GROUP BY probe.tag, found.status
UNION ALL
SELECT 'problem', tag, needy.status, count(*), NULL, NULL FROM needy JOIN large USING (tag)
    GROUP BY tag, needy.status
UNION ALL
SELECT 'needy', tag, '', (SELECT count(*) FROM needy), NULL, NULL FROM large
"""


def last_ids(
    connection: Connection, database: Database, newest: int, waiting: int, probes: int
) -> dict[str, int]:
    """Return the tags of the bulk emails that are looked at, with their newest emails' ids."""
    rows = connection.execute(database.built(_tags, newest, waiting, probes))
    return {row.tag: row.id for row in rows}


def findings(
    connection: Connection, database: Database, tags: Sequence[str], depth: Depth
) -> list[TagFinding]:
    """Return what is found of these tags."""
    rows = connection.execute(database.built(_progress, depth), {"tags": list(tags)})
    return [TagFinding(*row) for row in rows]


def _tags(database: Database, newest: int, waiting: int, probes: int) -> TextualSelect:
    email = database.name(database.tables.email)
    statement = _TAGS.format(
        email=email,
        last=_LAST_OF_TAG.format(email=email),
        bulk=int(Priority.BULK),
        newest=newest,
        waiting=waiting,
        probes=probes,
    )
    return text(statement).columns(tag=String, id=BigInteger)


def _progress(database: Database, depth: Depth) -> TextualSelect:
    statement = _PROGRESS.format(
        email=database.name(database.tables.email),
        counted=depth.counted,
        sample=depth.sample,
        problems=depth.problems,
    )
    return (
        text(statement)
        .bindparams(bindparam("tags", type_=ARRAY(String)))
        .columns(first_at=MOMENT, last_at=MOMENT)
    )
