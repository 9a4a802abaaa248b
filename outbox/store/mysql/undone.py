"""Whether MariaDB or MySQL has undone a whole transaction, although only a statement failed."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

_OF_ALL = frozenset({1020, 1206, 1213})
"""The numbers with which InnoDB ends the transaction: a row that changed since the snapshot, a full
table of locks, a deadlock. The next statement begins another transaction."""

_TIMEOUT = 1205
"""The number of a lock wait, which undoes the statement only, or by this setting all."""
_ROLLBACK_ON_TIMEOUT = "SELECT @@innodb_rollback_on_timeout"


def is_undone(connection: Connection, codes: Collection[int | str | None]) -> bool:
    """Return whether one of the errors with these codes has undone all that was written."""
    if not _OF_ALL.isdisjoint(codes):
        return True
    return _TIMEOUT in codes and bool(connection.exec_driver_sql(_ROLLBACK_ON_TIMEOUT).scalar_one())
