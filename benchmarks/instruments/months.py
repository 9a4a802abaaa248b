"""Turns an outbox's long tables into partitioned ones on PostgreSQL, as an experiment.

The outbox does not support it: an idempotency key is unique within one partition only.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.ours import Ours

MONTHS = 12
"""Partitions for the emails to come, as a table needs that keeps a year."""

_LONG = {"outbox_email": "id", "outbox_attempt": "email_id", "outbox_lookup": "email_id"}
"""The tables that grow with each email, and the column that has its id.

Contents are not here: emails of several months may share one.
"""
_ROOM = 1_000_000_000
"""Ids of a partition, more than any run needs."""


@dataclass(frozen=True)
class Index:
    """An index of a table that is to be partitioned."""

    name: str
    definition: str
    columns: list[str]
    is_primary: bool
    is_unique: bool


def partition(made: Ours) -> None:
    """Make each long table the first partition of a new one, and add one for each month to come."""
    bound = int(made.scalar("SELECT max(id) + 1 FROM outbox_email"))
    made.run("ALTER TABLE outbox_recipient DROP CONSTRAINT outbox_recipient_email_id_fkey")
    for table, column in _LONG.items():
        made.run(*_partitioned(made, table, column, bound))
    made.run(
        "ALTER TABLE outbox_recipient ADD FOREIGN KEY (email_id) REFERENCES outbox_email (id)",
        *(f"ANALYZE {table}" for table in _LONG),
    )


def drop_oldest(made: Ours) -> None:
    """Drop the partitions that the tables were before."""
    made.run(*(f"ALTER TABLE {table} DETACH PARTITION {table}_old" for table in reversed(_LONG)))
    made.run(*(f"DROP TABLE {table}_old" for table in reversed(_LONG)))


def _partitioned(made: Ours, table: str, column: str, bound: int) -> list[str]:
    indexes, options = _indexes(made, table), _options(made, table)
    old = f"{table}_old"
    statements = [
        f"ALTER TABLE {table} RENAME TO {old}",
        *(f"ALTER INDEX {index.name} RENAME TO {index.name}_old" for index in indexes),
        # A check that says the same saves the search for rows that are not in the partition.
        f"ALTER TABLE {old} ADD CHECK ({column} < {bound})",
        f"CREATE TABLE {table} (LIKE {old} INCLUDING DEFAULTS INCLUDING GENERATED)"
        f" PARTITION BY RANGE ({column})",
    ]
    if (sequence := _sequence(made, table)) is not None:
        statements.append(f"ALTER SEQUENCE {sequence} OWNED BY {table}.id")
    statements += (_index(table, column, index) for index in indexes)
    statements += (
        f"ALTER TABLE {table} ATTACH PARTITION {old} FOR VALUES FROM (MINVALUE) TO ({bound})",
        *(
            f"CREATE TABLE {table}_{month} PARTITION OF {table} FOR VALUES"
            f" FROM ({bound + month * _ROOM}) TO ({bound + (month + 1) * _ROOM}){options}"
            for month in range(MONTHS)
        ),
    )
    return statements


def _index(table: str, column: str, index: Index) -> str:
    """Return the statement that makes this index; over partitions not each can be unique."""
    if index.is_primary and column in index.columns:
        return f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(index.columns)})"
    if index.is_unique and column not in index.columns:
        return index.definition.replace("UNIQUE ", "")
    return index.definition


def _indexes(made: Ours, table: str) -> list[Index]:
    found = made.rows(
        "SELECT c.relname, pg_get_indexdef(c.oid), i.indisprimary, i.indisunique,"
        " (SELECT array_agg(a.attname::text ORDER BY a.attnum)"
        "  FROM pg_attribute a WHERE a.attrelid = c.oid)"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        f" WHERE i.indrelid = '{table}'::regclass"
    )
    return [
        Index(name, definition, columns, is_primary, is_unique)
        for name, definition, is_primary, is_unique, columns in found
    ]


def _sequence(made: Ours, table: str) -> str | None:
    """Return the sequence of the table's ids; it would go with the table that was there first."""
    name: str | None = made.scalar(
        f"SELECT pg_get_serial_sequence('{table}', attname) FROM pg_attribute"
        f" WHERE attrelid = '{table}'::regclass AND attname = 'id'"
    )
    return name


def _options(made: Ours, table: str) -> str:
    options = made.scalar(
        f"SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = '{table}'::regclass"
    )
    return f" WITH ({options})" if options else ""
