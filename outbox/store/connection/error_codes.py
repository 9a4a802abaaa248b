"""Classifies the database's errors: transient, the data was refused, or an outage.

The drivers' exception classes are not reliable. A read-only PostgreSQL is an `InternalError`, and
PyMySQL has an `OperationalError` for a violated constraint. So the codes decide. Each driver keeps
its code in a different place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ...domain.errors import ConfigurationError
from .privileges import lacks_privilege
from .sqlite.memory import Busy

ANSWERS = (SQLAlchemyError, OSError)
"""Errors of the database or the way to it, as opposed to bugs. SQLAlchemy's own errors are among
them: an exhausted pool raises its own `TimeoutError`."""

_TRANSIENT: frozenset[int | str] = frozenset({"40001", "40P01", 1020, 1205, 1213, 1305})
"""PostgreSQL: serialisation failure, deadlock. MariaDB, MySQL: changed row, lock wait, deadlock,
and a savepoint that is gone, because a deadlock has rolled back the whole transaction."""
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
_SQLITE_ERROR = "SQLITE_ERROR"

_REFUSED_CLASSES = frozenset({"22", "23", "54", "P0"})
"""SQLSTATE: data, constraints, a limit of the program such as an index row's size, a trigger."""

_REFUSED_NUMBERS = frozenset(
    {1048, 1062, 1153, 1264, 1265, 1292, 1300, 1364, 1366, 1406, 1451, 1452, 1644, 3819, 4025}
)
"""MariaDB, MySQL: NULL, a duplicate, too large a packet; values that are out of range, truncated,
wrong or too long; a character that the column lacks; foreign keys, a trigger's own error, CHECK."""

_MISTAKES: frozenset[int | str] = frozenset(
    {"0A", "26", "3F", "42", _SQLITE_ERROR, 1052, 1054, 1064, 1142, 1143, 1146, 1305}
)
"""Faults of the statement, its tables or its rights, which some drivers call operational. They are
classes of SQLSTATE, SQLite's general code, and MariaDB's numbers."""

_TOO_LONG: frozenset[int | str] = frozenset({"57014", 1969, 3024})
"""PostgreSQL, MariaDB, MySQL: the statement took longer than the database allows."""

_OF_THE_WHOLE = frozenset(
    {"08", "0A", "25", "26", "28", "3D", "40", "42P05", "53", "55", "57", "58", "XX000"}
    | {1020, 1021, 1026, 1030, 1037, 1040, 1041, 1044, 1045, 1047, 1049, 1053, 1105, 1114, 1129}
    | {1130, *range(1152, 1162), 1180, 1197, 1203, 1205, 1206, 1213, 1226, 1290, 1305, 1317, 1412}
    | {1615, 1665, 1792, 1836, 1927, *range(2000, 3000), 3100, 3101, 9001}
)
"""PostgreSQL: connection, plans, read-only, resources, locks, shutdown, system. The numbers of
MariaDB and MySQL for the same, also while connecting, for a binary log of statements, and those of
Galera and MaxScale. Such an error is of the database, and not of one row."""

_DUPLICATE: frozenset[int | str] = frozenset(
    {"23505", "23000", 1022, 1062, 1586, "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"}
)
"""PostgreSQL; the standard's, which tells no more; MariaDB and MySQL; SQLite."""

_SERIALIZATION = "40001"
"""PostgreSQL: no order of the transactions explains what they have read and written."""

LOCK_TIMEOUT: frozenset[int | str] = frozenset({"55P03", 1205})
"""PostgreSQL; MariaDB and MySQL: others held a row for longer than a statement waits for it."""


_SQLSTATE = re.compile(r"[0-9A-Z]{5}")

_NO_TABLE: frozenset[int | str] = frozenset({"42P01", 1146})
_NO_COLUMN: frozenset[int | str] = frozenset({"42703", 1054})

NO_TABLES = (
    "the outbox's tables are missing: run your migrations (flask db migrate, then"
    " flask db upgrade), or db.create_all(), or metadata.create_all(engine). Where Alembic works"
    " without Flask-Migrate, its env.py must make the app first, or it does not know these tables"
)

OLD_TABLES = (
    "the outbox's tables lack a column that this version needs: run your migrations (flask db"
    " migrate, then flask db upgrade), see docs/upgrading.md"
)

_BAD_VALUES = (ValueError, OverflowError)
"""Errors that a driver itself raises: a character that the encoding lacks, a NUL, a number that is
too large."""


def code_of(error: BaseException) -> int | str | None:
    """Return the database's code, or None: an SQLSTATE, MariaDB's number, or SQLite's name."""
    original: Any = error.orig if isinstance(error, StatementError) else error
    first = next(iter(getattr(original, "args", ())), None)
    if isinstance(first, int):  # PyMySQL, mysqlclient, asyncmy; their SQLSTATE is less exact
        return first
    if hasattr(original, "sqlstate") and isinstance(getattr(original, "errno", None), int):
        return original.errno  # type: ignore[no-any-return]  # MariaDB's connector
    for name in ("sqlstate", "pgcode", "sqlite_errorname"):  # psycopg, asyncpg; psycopg2; sqlite3
        if code := getattr(original, name, None):
            return code  # type: ignore[no-any-return]
    if isinstance(first, str) and _SQLSTATE.fullmatch(first):
        return first  # pyodbc
    return first.get("C") if isinstance(first, dict) else None  # pg8000


def is_transient(error: DBAPIError) -> bool:
    """Return whether the same transaction may succeed if it is repeated at once."""
    code = code_of(error)
    return code in _TRANSIENT or (isinstance(code, str) and code.startswith(_BUSY))


def is_duplicate(error: IntegrityError) -> bool:
    """Return whether a row with the same key is there, as far as the code tells.

    A trigger's refusal, a CHECK and a foreign key are no duplicates: to repeat them is in vain.
    """
    code = code_of(error)
    return code in _DUPLICATE or code is None


def is_serialization_failure(error: BaseException) -> bool:
    """Return whether PostgreSQL found no order for transactions, be their rows quite different.

    An app above READ COMMITTED repeats its transaction when it meets this code.
    """
    return isinstance(error, DBAPIError) and code_of(error) == _SERIALIZATION


def is_too_long(error: BaseException) -> bool:
    """Return whether a statement took longer than the database allows; a shorter one may pass."""
    return isinstance(error, DBAPIError) and code_of(error) in _TOO_LONG


def is_lock_timeout(error: BaseException) -> bool:
    """Return whether others held a row for longer than the statement waits for it."""
    return isinstance(error, DBAPIError) and code_of(error) in LOCK_TIMEOUT


def is_refusal(error: BaseException) -> bool:
    """Return whether the database or its driver refuses the data, now and always."""
    if isinstance(error, (*_BAD_VALUES, DataError, IntegrityError)):
        return True
    if isinstance(error, StatementError) and not isinstance(error, DBAPIError):
        return True  # SQLAlchemy could not make a parameter of the value
    code = code_of(error)
    if isinstance(code, str):
        return code[:2] in _REFUSED_CLASSES
    return code in _REFUSED_NUMBERS


def is_outage(error: BaseException) -> bool:
    """Return whether the database is away, too busy or out of connections."""
    if isinstance(error, (PoolTimeoutError, Busy)):
        return True
    if not isinstance(error, DBAPIError) or is_refusal(error):
        return False
    code = code_of(error)
    is_state = isinstance(code, str) and not code.startswith("SQLITE")
    return (str(code)[:2] if is_state else code) not in _MISTAKES


def may_be_of_a_row(error: BaseException) -> bool:
    """Return whether the row of one email may be what fails, and the database is well.

    Refused data is one such error. Another is that of a user's trigger, which has any code, or of
    row security, which has that of a missing right. Whoever asks has to find out if others pass.
    """
    if is_refusal(error):
        return True
    if not isinstance(error, DBAPIError) or error.connection_invalidated or lacks_privilege(error):
        return False
    code = code_of(error)
    if error.statement is None and isinstance(code, int):
        return False  # MariaDB and MySQL check no row at the commit: there is no connection
    if code is None or is_transient(error):
        return False
    if str(code).startswith("SQLITE"):
        return code == _SQLITE_ERROR  # as where a trigger's JSON is malformed
    if code in _TOO_LONG:
        return True
    is_state = isinstance(code, str)
    return code not in _OF_THE_WHOLE and (not is_state or str(code)[:2] not in _OF_THE_WHOLE)


class MissingTables(ConfigurationError, SQLAlchemyError):
    """The outbox's tables do not exist, or are an older version's. The text names the remedy."""


def is_missing_table(error: BaseException) -> bool:
    """Return whether the outbox's tables are missing, or a column of them."""
    return isinstance(error, MissingTables) or _lack(error) is not None


def refuse_missing_tables(error: BaseException, elsewhere: Callable[[], str | None]) -> None:
    """Raise MissingTables in the place of such an error; return for any other one.

    Where no table is found, `elsewhere` may tell in which other schema they stand.
    """
    if (text := _lack(error)) is not None:
        raise MissingTables((elsewhere() if text == NO_TABLES else None) or text) from error


class TablesNeeded:
    """Has `refuse` see the errors of a block. A generator would cost each enqueue and read more."""

    __slots__ = ("_refuse",)

    def __init__(self, refuse: Callable[[BaseException], None]) -> None:
        self._refuse = refuse

    def __enter__(self) -> None:
        """Do nothing: only errors matter."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, SQLAlchemyError):
            self._refuse(error)


def _lack(error: BaseException) -> str | None:
    original = error.orig if isinstance(error, StatementError) else error
    told, statement = str(original), str(getattr(error, "statement", ""))
    if "outbox_" not in told + statement:  # a table of the app's own
        return None
    code = code_of(error)  # SQLite has none for this
    if code in _NO_TABLE or "no such table" in told:
        return NO_TABLES
    is_column = "no such column" in told or "has no column named" in told
    return OLD_TABLES if code in _NO_COLUMN or is_column else None


def describe(error: BaseException) -> str:
    """Return the error's class and code. Its text quotes rows, which do not belong in logs."""
    if isinstance(error, (Busy, MissingTables)):
        return str(error)  # the outbox's own text, with the remedy
    original = error.orig if isinstance(error, StatementError) else error
    code = code_of(error)
    return type(original).__name__ + ("" if code is None else f" {code}")


def without_rows(error: Exception) -> Exception:
    """Return what a log may show of an error, with its traceback: a database's text quotes rows."""
    if not isinstance(error, StatementError):
        return error
    return RuntimeError(describe(error)).with_traceback(error.__traceback__)
