"""The schema as it stands in the database, beside the one that this version needs."""

from __future__ import annotations

from dataclasses import fields

from sqlalchemy import Connection, Table, inspect

from .database import Database


def differences(database: Database) -> list[str]:
    """Return what is missing: tables, columns, indexes. Empty where all is there."""
    tables = database.tables
    return database.run(
        lambda connection: [
            text
            for field in fields(tables)
            for text in _missing(connection, getattr(tables, field.name))
        ]
    )


def weakened(database: Database) -> list[str]:
    """Return the settings of PostgreSQL by which a commit may be forgotten; the promise needs them.

    SQLite's durability is set with each of our transactions.
    """
    if database.dialect != "postgresql":
        return []

    def work(connection: Connection) -> list[str]:
        shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in _DURABLE}
        return [f"PostgreSQL's {name} is off" for name, value in shown.items() if value == "off"]

    return database.read(work)


def narrow(database: Database, size: int) -> list[str]:
    """Return what keeps a mail of `size` bytes out of the database: MariaDB's limit of a statement.

    It ends the connection of the enqueue that exceeds it. MariaDB 10.11 was seen to take only half
    of what it names in a statement of several packets.
    """
    if database.dialect not in ("mysql", "mariadb"):
        return []
    statement = "SELECT @@max_allowed_packet"
    most = database.read(lambda c: int(c.exec_driver_sql(statement).scalar_one()))
    text = f"max_allowed_packet is {most}, and not over twice OUTBOX_MAX_SIZE"
    return [] if most > 2 * size else [text]


_DURABLE = ("synchronous_commit", "fsync", "full_page_writes")


def _missing(connection: Connection, table: Table) -> list[str]:
    found = inspect(connection)
    if not found.has_table(table.name, schema=table.schema):
        return [f"table {table.name} is missing; run your migrations"]
    columns = {column["name"] for column in found.get_columns(table.name, schema=table.schema)}
    indexes = {index["name"] for index in found.get_indexes(table.name, schema=table.schema)}
    return [
        *(
            f"column {table.name}.{c.name} is missing"
            for c in table.columns
            if c.name not in columns
        ),
        *(f"index {index.name} is missing" for index in table.indexes if index.name not in indexes),
    ]
