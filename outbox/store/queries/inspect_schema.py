"""The schema as it stands in the database, beside the one that this version needs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from sqlalchemy import Connection, Inspector, Table, inspect
from sqlalchemy.engine.interfaces import ReflectedColumn

from ..connection.database import Database
from ..schema.table_names import schema_of
from ..schema.version import is_mark, version_of


@dataclass(kw_only=True)
class Schema:
    """What was found in the database."""

    version: int = 0
    absent: int = 0  # how many tables of ours are missing
    missing: list[str] = field(default_factory=list)  # tables, columns and indexes of ours
    demanded: list[str] = field(default_factory=list)  # columns we do not know and must fill


def inspect_schema(database: Database) -> Schema:
    """Compare the tables as they stand with those that this code wants."""
    tables = [getattr(database.tables, each.name) for each in fields(database.tables)]

    def work(connection: Connection) -> Schema:
        schema, inspector = Schema(), inspect(connection)
        for table in tables:
            _compare(schema, inspector, table, schema_of(table, database.engine))
        return schema

    return database.run(work)


def durability_warnings(database: Database) -> list[str]:
    """Return the settings of PostgreSQL by which a commit may be forgotten; the promise needs them.

    SQLite's durability is set with each of our transactions.
    """
    if database.dialect != "postgresql":
        return []

    def work(connection: Connection) -> list[str]:
        shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in _DURABLE}
        return [f"PostgreSQL's {name} is off" for name, value in shown.items() if value == "off"]

    return database.read(work)


def packet_warnings(database: Database, size: int) -> list[str]:
    """Return what keeps an email of `size` bytes out: MariaDB's limit of a statement.

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


def _compare(schema: Schema, inspector: Inspector, table: Table, place: str | None) -> None:
    if not inspector.has_table(table.name, schema=place):
        schema.absent += 1
        schema.missing.append(f"table {table.name} is missing")
        return
    columns = {each["name"]: each for each in inspector.get_columns(table.name, place)}
    indexes = {str(each["name"]) for each in inspector.get_indexes(table.name, place)}
    schema.version = max(schema.version, version_of(indexes))
    schema.missing += [
        f"column {table.name}.{column.name} is missing"
        for column in table.columns
        if column.name not in columns
    ]
    schema.missing += [
        f"index {index.name} is missing"
        for index in table.indexes
        if index.name not in indexes and not is_mark(index.name)
    ]
    schema.demanded += [
        f"{table.name}.{name}"
        for name, column in columns.items()
        if name not in table.columns and not column["nullable"] and not _fills_itself(column)
    ]


def _fills_itself(column: ReflectedColumn) -> bool:
    return column["default"] is not None or "computed" in column or "identity" in column
