"""Who changes the schema raises its version: `schema.txt` is the schema of the version it names.

`python -m tests.unit.store.test_schema_version` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import CheckConstraint, Column, MetaData, Table, TextClause, UniqueConstraint
from sqlalchemy.schema import Constraint

from outbox.store.schema.tables import define
from outbox.store.schema.version import VERSION, is_mark, version_of

RECORDED = Path(__file__).with_name("schema.txt")


def described() -> str:
    """Return the tables of this code as text, a line for each column, index and constraint."""
    metadata = MetaData()
    define(metadata)
    lines = [line for table in metadata.sorted_tables for line in sorted(_lines(table))]
    return "\n".join([f"version {VERSION}", *lines]) + "\n"


def _lines(table: Table) -> Iterator[str]:
    for column in table.columns:
        filled = _filled(column)
        null = "null" if column.nullable else "not null"
        yield f"{table.name}.{column.name} {column.type!r} {null}{filled}"
    for index in table.indexes:
        if not is_mark(index.name):
            names = ", ".join(column.name for column in index.columns)
            where = index.dialect_options["postgresql"]["where"]
            yield f"{table.name} {index.name} ({names}) unique={index.unique} where {where}"
    yield from (f"{table.name} {text}" for text in map(_constraint, table.constraints) if text)


def _filled(column: Column[Any]) -> str:
    if column.computed is not None:
        return f" computed {column.computed.sqltext}"
    default = column.server_default.arg if column.server_default else None  # type: ignore[attr-defined]
    words = str(default) if isinstance(default, TextClause) else repr(default)
    return "" if default is None else f" default {words}"


def _constraint(constraint: Constraint) -> str:
    if isinstance(constraint, CheckConstraint):
        return f"{constraint.name} check {constraint.sqltext}"
    if isinstance(constraint, UniqueConstraint):
        return f"{constraint.name} ({', '.join(constraint.columns.keys())})"
    return ""


def test_a_schema_that_was_changed_has_a_new_version() -> None:
    assert described() == RECORDED.read_text("utf-8"), (
        "the schema was changed: raise VERSION in outbox/store/schema/version.py, write"
        f" schema.txt anew ({__name__}), and see in docs/upgrading.md what a change may do"
    )


def test_the_schema_carries_its_version_and_others_names_are_not_taken_for_one() -> None:
    metadata = MetaData()
    tables = define(metadata)
    names = [str(index.name) for table in metadata.sorted_tables for index in table.indexes]
    assert version_of(names) == VERSION
    assert [index.name for index in tables.pause.indexes] == [f"ix_outbox_schema_{VERSION}"]
    assert version_of(["ix_outbox_email_due", "ix_outbox_schema_x", "a_schema_7"]) == 0
    assert version_of(["ix_outbox_schema_9", "ix_outbox_schema_10"]) == 10


def test_the_page_about_upgrades_tells_of_this_version() -> None:
    """By an older mark than this an app would send nothing."""
    page = Path("docs/upgrading.md").read_text("utf-8")
    assert f"`CREATE INDEX ix_outbox_schema_{VERSION} ON outbox_pause (paused_at)`" in page
    assert f"`the schema is complete: version {VERSION}`" in page
    assert f"## From version {VERSION - 1} to version {VERSION}\n" in page


if __name__ == "__main__":
    RECORDED.write_text(described(), "utf-8")
