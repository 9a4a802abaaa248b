"""What tests have written to a database of a PostgreSQL, as its own statistics tell."""

from __future__ import annotations

from typing import Any, ClassVar, LiteralString

import psycopg
from sqlalchemy import make_url

from tests.support.servers.databases.lending import Watch

_OTHERS = """
SELECT (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database())
+ (SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid())
"""
"""The sessions, autovacuum's among them, and the transactions that outlive theirs."""

_WRITTEN = """
SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND oid >= 16384
AND (pg_relation_size(oid) > 0 OR reltoastrelid <> 0 AND pg_relation_size(reltoastrelid) > 0)
UNION
SELECT refobjid::regclass::text
FROM pg_sequence, pg_get_sequence_data(seqrelid) AS at, pg_depend
WHERE (at.last_value, at.is_called) IS DISTINCT FROM (seqstart, false)
AND classid = 'pg_class'::regclass AND objid = seqrelid
AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')
"""
"""The tables that have a row, or had one since they were truncated, or whose identity advanced."""

_AS_CREATED = """
UPDATE pg_class SET reltuples = 0,
    relpages = pg_relation_size(oid) / current_setting('block_size')::integer
WHERE relkind = 'i' AND oid >= 16384 AND reltuples < 0
"""
"""TRUNCATE forgets the sizes of the empty indexes, which CREATE INDEX has noted."""

_ONLY_ROWS = """
SELECT NOT EXISTS (
    SELECT FROM pg_class
    WHERE oid < 16384 AND relkind = 'r' AND NOT relisshared
    AND pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
        + pg_stat_get_tuples_deleted(oid) > 0
) AND NOT EXISTS (
    SELECT FROM pg_class
    WHERE oid >= 16384 AND relkind = 'r'
    AND pg_stat_get_vacuum_count(oid) + pg_stat_get_autovacuum_count(oid)
        + pg_stat_get_analyze_count(oid) + pg_stat_get_autoanalyze_count(oid) > 0
) AND NOT EXISTS (
    SELECT FROM pg_sequence, pg_get_sequence_data(seqrelid) AS at
    WHERE (at.last_value, at.is_called) IS DISTINCT FROM (seqstart, false)
) AND NOT EXISTS (
    SELECT FROM pg_db_role_setting WHERE setdatabase = database.oid
) AND datallowconn AND datconnlimit = -1 AND datacl IS NULL
AND datdba = current_user::regrole
AND pg_stat_get_db_stat_reset_time(database.oid) IS NOT DISTINCT FROM %s
FROM pg_database AS database WHERE datname = current_database()
"""
"""Whether the catalogs are as they were: the database's own, and its part of those of all.

A session counts each row that it writes there, also those that it rolls back, and reports them
before it leaves pg_stat_activity. VACUUM changes pg_class without counting that, but each VACUUM is
counted. The transaction that asks reports its own TRUNCATE after its commit.
"""

_SINCE = """
SELECT pg_stat_get_db_stat_reset_time(oid) FROM pg_database WHERE datname = current_database()
"""


class WatchedPostgres(Watch):
    """Truncates what was written: this leaves no dead row, no statistics, and ids begin at 1."""

    errors: ClassVar[type[Exception]] = psycopg.Error

    def __init__(self, url: str) -> None:
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._link = psycopg.connect(plain, autocommit=True)
        self._unfit = bool(self._written())

    def begin(self) -> None:
        """Note since when is counted: that is all if nobody resets the counts."""
        self._counted_since = self._one(_SINCE)

    def others(self) -> int:
        """Return how many others are connected to the database, or have prepared a commit."""
        return int(self._one(_OTHERS))

    def empty(self) -> bool:
        """Truncate what was written, or return False if a catalog was."""
        if self._unfit or not self._truncated():
            return False
        self._one("SELECT pg_stat_reset()")
        return True

    def close(self) -> None:
        """End its session."""
        self._link.close()

    def _truncated(self) -> bool:
        with self._link.transaction():
            if written := self._written():
                tables = ", ".join(written)
                self._link.execute(f"TRUNCATE {tables} RESTART IDENTITY CASCADE".encode())
                self._link.execute(_AS_CREATED)
            same = bool(self._one(_ONLY_ROWS, self._counted_since))
            self._one("SELECT pg_stat_force_next_flush()")  # so that the reset comes later
        return same

    def _written(self) -> list[str]:
        return [name for (name,) in self._link.execute(_WRITTEN)]

    def _one(self, statement: LiteralString, *values: object) -> Any:
        (value,) = self._link.execute(statement, values).fetchone() or (None,)
        return value
