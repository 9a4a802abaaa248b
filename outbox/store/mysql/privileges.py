"""Finds the privileges on the outbox's tables that the user of a connection lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.exc import DBAPIError

from ..connection.error_codes import is_lock_timeout, is_missing_table
from ..connection.privileges import lacks_privilege
from .lock_wait import bounded

_COLUMNS = text("""
SELECT table_name, privileges FROM information_schema.columns
WHERE table_schema = COALESCE(:schema, DATABASE()) AND table_name IN :names
""").bindparams(bindparam("names", expanding=True))
"""What the user may do with each column, by whatever grant: a role's, a database's, a table's."""

_USER = text("SELECT CURRENT_USER(), COALESCE(:schema, DATABASE())")
_READ, _DELETE = "EXPLAIN SELECT 1 FROM {}", "EXPLAIN DELETE FROM {} WHERE FALSE"
"""An EXPLAIN needs the privileges of its statement. A column's privileges do not tell of DELETE."""

_NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE")


def lacking_privileges(
    connection: Connection, names: Sequence[str], schema: str | None
) -> list[str]:
    """Return a line, with the GRANTs, for each set of privileges that the user lacks.

    `names` are those of our tables; without `schema` they are in the connection's database. Who has
    no privilege on a table at all is not told whether it exists: then it counts as one that does.
    Where somebody has locked a table, as for a backup, nothing is told.
    """
    try:
        with bounded(connection, 1):
            return _lacking(connection, names, schema)
    except DBAPIError as error:
        if is_lock_timeout(error):
            return []
        raise


def _lacking(connection: Connection, names: Sequence[str], schema: str | None) -> list[str]:
    told, database = connection.execute(_USER, {"schema": schema}).one()
    user = "'{}'@'{}'".format(*told.rsplit("@", 1))
    allowed = _allowed(connection, names, schema)
    lacking = defaultdict[str, list[str]](list)
    for name in sorted(names):
        table = f"`{database}`.`{name}`"
        own = allowed.get(name, set()) | _deletes(connection, table)
        missing = [privilege for privilege in _NEEDED if privilege not in own]
        if missing and (name in allowed or not _is_absent(connection, table)):
            lacking[", ".join(missing)].append(table)
    return [
        f"the user {user} lacks a privilege: "
        + "; ".join(f"GRANT {privileges} ON {table} TO {user}" for table in tables)
        for privileges, tables in lacking.items()
    ]


def _allowed(
    connection: Connection, names: Sequence[str], schema: str | None
) -> dict[str, set[str]]:
    """Return by table what the user may do with each of its columns."""
    allowed = dict[str, set[str]]()
    for table, told in connection.execute(_COLUMNS, {"schema": schema, "names": list(names)}):
        column = set(told.upper().split(","))
        allowed[table] = allowed.get(table, column) & column
    return allowed


def _deletes(connection: Connection, table: str) -> set[str]:
    """Return DELETE, unless the user may not. A read-only server answers before it looks."""
    denied = _fails(connection, _DELETE.format(table), lacks_privilege)
    return set() if denied else {"DELETE"}


def _is_absent(connection: Connection, table: str) -> bool:
    return _fails(connection, _READ.format(table), is_missing_table)


def _fails(connection: Connection, statement: str, by: Callable[[BaseException], bool]) -> bool:
    try:
        connection.exec_driver_sql(statement)
    except DBAPIError as error:
        if is_lock_timeout(error):
            raise
        return by(error)
    return False
