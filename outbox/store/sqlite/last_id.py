"""Whether SQLite gives an id of a row that is gone to another row."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Table, text

_WRITTEN = text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name")
_LOST = "has lost AUTOINCREMENT: a new row may get the id of a purged one, see docs/upgrading.md"


def id_warnings(connection: Connection, tables: Sequence[Table]) -> list[str]:
    """Return a warning for each of these tables that has lost AUTOINCREMENT.

    A batch migration copies a table, and the copy lacks it. SQLite shows it nowhere else.
    """
    names = [one.name for one in tables if one.kwargs.get("sqlite_autoincrement")]
    written = {name: connection.scalar(_WRITTEN, {"name": name}) for name in names}
    lost = [name for name, sql in written.items() if sql and "AUTOINCREMENT" not in sql.upper()]
    return [f"{name} {_LOST}" for name in lost]
