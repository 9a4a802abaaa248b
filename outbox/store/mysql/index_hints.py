"""Names the index that MariaDB and MySQL must go by, where they would choose to read more."""

from __future__ import annotations

from typing import TypeVarTuple

from sqlalchemy import Select, Table

Columns = TypeVarTuple("Columns")


def go_by(statement: Select[*Columns], table: Table, index: str) -> Select[*Columns]:
    """Return the statement so that it finds the table's rows by this index."""
    return statement.with_hint(table, f"FORCE INDEX ({index})")
