"""Whether a commit would commit something of a transaction, or end it: what its database tells.

The words of its statements do not tell all. A function writes, and so does a statement over the
driver's own cursor, of which SQLAlchemy knows nothing.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Connection

from ..connection.prepared_statements import unprepared

MYSQL = ("mysql", "mariadb")
TELLING = ("sqlite", *MYSQL)
"""Where the driver tells whether it was used directly."""

# Rows that are written or locked come with a transaction's id, and with locks. A commit would close
# a cursor, such as a streamed result has. A lock of a plain read, or a note of SERIALIZABLE's, it
# frees without harm. A cursor without a name is this statement's own, with asyncpg. The locks come
# last: that look is the dearest.
_POSTGRESQL = """
SELECT CASE
    WHEN txid_current_if_assigned() IS NOT NULL THEN true
    WHEN EXISTS (SELECT FROM pg_cursors WHERE name <> '' AND NOT is_holdable) THEN true
    ELSE EXISTS (
        SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid'
            AND mode NOT IN ('AccessShareLock', 'SIReadLock')
    )
END
"""


class Mark:
    """How a connection stood when its session's transaction began, and what was seen since."""

    __slots__ = ("_changes", "_dialect", "_driver", "_state", "is_broken")

    def __init__(self, connection: Connection) -> None:
        self.is_broken = False
        """Whether a statement was seen that is no plain read, or may be none."""
        self._dialect = connection.dialect.name
        tells = self._dialect in TELLING
        self._driver: Any = connection.connection.driver_connection if tells else None
        self._state = self._seen()
        self._changes = self._written()

    def before(self) -> None:
        """See whether somebody used the driver directly since SQLAlchemy's last statement."""
        if self._seen() is not self._state:
            self.is_broken = True

    def after(self) -> None:
        """Note how the driver stands behind a statement of SQLAlchemy's."""
        self._state = self._seen()

    def is_held(self, connection: Connection) -> bool:
        """Return whether the transaction may hold anything. It is asked in one statement at most.

        Where nobody can tell, it may.
        """
        if self.is_broken or connection.closed or connection.invalidated:
            return True
        if self._dialect == "postgresql":
            with unprepared(connection):
                return bool(connection.exec_driver_sql(_POSTGRESQL).scalar_one())
        if self._dialect not in TELLING:
            return True
        return self._written() != self._changes or self._seen() is not self._state

    def _seen(self) -> Any:
        """Return what a statement over the driver's own cursor changes, where there is such."""
        if self._dialect == "sqlite":
            return bool(getattr(self._driver, "in_transaction", True))
        return getattr(self._driver, "_result", None) if self._driver is not None else None

    def _written(self) -> int | None:
        """Return how many rows were ever written over this connection of SQLite."""
        return getattr(self._driver, "total_changes", None) if self._dialect == "sqlite" else None


_CALLS = re.compile(r"(?<![\w$.`\"])([\w$.`\"]+)(?:\s|/\*.*?\*/|(?:--|#)[^\n]*\n)*\(", re.DOTALL)
_SYNTAX = """
    AGAINST ALL AND ANY AS BETWEEN BY CASE DISTINCT ELSE EXCEPT EXISTS FROM HAVING IN INTERSECT IS
    JOIN LIKE LIMIT MATCH NOT OFFSET ON OR OVER REGEXP SELECT SOME THEN UNION USING VALUES WHEN
    WHERE WITH XOR BINARY CHAR DATETIME DECIMAL FLOAT TIME VARCHAR
"""
_FUNCTIONS = """
    ABS AVG CAST CEIL CEILING CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONNECTION_ID CONVERT COUNT
    CURDATE CURRENT_DATE CURRENT_TIMESTAMP DATABASE DATE DATE_ADD DATE_FORMAT DATE_SUB DATEDIFF DAY
    DENSE_RANK EXTRACT FIELD FIND_IN_SET FIRST_VALUE FLOOR FROM_UNIXTIME GREATEST GROUP_CONCAT HEX
    HOUR IF IFNULL INSTR JSON_ARRAY JSON_CONTAINS JSON_EXTRACT JSON_LENGTH JSON_OBJECT JSON_UNQUOTE
    JSON_VALUE LAG LAST_VALUE LEAD LEAST LEFT LENGTH LOCATE LOWER LTRIM MAX MD5 MIN MINUTE MOD MONTH
    NOW NULLIF RAND RANK RIGHT ROUND ROW_NUMBER RTRIM SECOND SHA1 SHA2 SUBSTR SUBSTRING SUM
    TIMESTAMPDIFF TRIM UNHEX UNIX_TIMESTAMP UPPER UTC_TIMESTAMP UUID VERSION YEAR
"""
_HARMLESS = frozenset(f"{_SYNTAX}{_FUNCTIONS}".split())
"""What may stand before a parenthesis: words of the syntax, types, and the server's own functions
that are common in reads."""


def may_call(dialect: str, text: str) -> bool:
    """Return whether a read, in capitals, may call a function of the user's where nobody tells.

    MariaDB and MySQL tell nobody without the privilege PROCESS what a transaction has written.
    """
    return dialect in MYSQL and any(name not in _HARMLESS for name in _CALLS.findall(text))
