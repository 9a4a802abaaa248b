"""What an error of the database means, whichever driver tells it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pymysql
import pytest
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InternalError,
    InvalidRequestError,
    OperationalError,
    ProgrammingError,
    StatementError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from outbox.store.connection.error_codes import (
    code_of,
    describe,
    is_refusal,
    is_transient,
    may_be_of_a_row,
)


class Psycopg2Error(Exception):
    """A double of a driver's error: psycopg2 itself fills in the code only from a server."""

    def __init__(self, pgcode: str) -> None:
        super().__init__("the row of jo@x.example")
        self.pgcode = pgcode


class ConnectorError(Exception):
    """A double of an error of MariaDB's connector, which is not among the tests' packages."""

    def __init__(self, errno: int, sqlstate: str) -> None:
        super().__init__("the row of jo@x.example")
        self.errno, self.sqlstate = errno, sqlstate


def wrapped(original: BaseException, kind: type[DBAPIError] = OperationalError) -> DBAPIError:
    return kind("UPDATE", {}, original)


def sqlite_error(*script: str) -> sqlite3.Error:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(sqlite3.Error) as caught:
        connection.executescript(";".join(script))
    return caught.value


def lite(name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("")
    error.sqlite_errorname = name
    return error


def sqlstate(code: str) -> psycopg.Error:
    return psycopg.errors.lookup(code)("jo@x.example")


CHECK = "SQLITE_CONSTRAINT_CHECK"


@pytest.mark.parametrize(
    ("original", "code"),
    [
        (sqlstate("25006"), "25006"),
        (Psycopg2Error("25006"), "25006"),
        (pymysql.err.OperationalError(1836, "read only"), 1836),
        (Exception({"S": "ERROR", "C": "25006"}), "25006"),  # pg8000
        (Exception("40001", "[40001] deadlock victim"), "40001"),  # pyodbc
        (ConnectorError(1205, "HY000"), 1205),
        (sqlite_error("CREATE TABLE t (n CHECK (n > 0))", "INSERT INTO t VALUES (0)"), CHECK),
        (sqlite_error("PRAGMA query_only = 1", "CREATE TABLE t (n)"), "SQLITE_READONLY"),
        (OSError("gone"), None),
        (Exception("could not connect"), None),
        (psycopg.OperationalError("the connection is lost"), None),
    ],
)
def test_each_driver_has_its_code_somewhere_else(original: Exception, code: Any) -> None:
    assert code_of(wrapped(original)) == code


@pytest.mark.parametrize(
    "error",
    [
        wrapped(sqlstate("22021")),
        wrapped(sqlstate("23514"), IntegrityError),
        wrapped(sqlstate("P0001"), ProgrammingError),  # a trigger of somebody's own
        wrapped(Psycopg2Error("22003")),
        wrapped(psycopg.DataError("PostgreSQL text fields cannot contain NUL"), DataError),
        wrapped(pymysql.err.OperationalError(4025, "CONSTRAINT failed")),
        wrapped(pymysql.err.DataError(1406, "too long"), DataError),
        wrapped(sqlite3.IntegrityError("CHECK constraint failed"), IntegrityError),
        StatementError("a bad value", "UPDATE", {}, TypeError("not a date")),
        UnicodeEncodeError("utf-8", "\udce4", 0, 1, "surrogates not allowed"),
        ValueError("A string literal cannot contain NUL (0x00) characters."),
        OverflowError("Python int too large to convert to SQLite INTEGER"),
    ],
    ids=repr,
)
def test_data_is_refused(error: Exception) -> None:
    assert is_refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        *(
            wrapped(sqlstate(code), kind)
            for code, kind in {
                "25006": InternalError,  # read-only
                "42P05": ProgrammingError,  # a prepared statement of another client's
                "26000": OperationalError,
                "08006": OperationalError,
                "53100": OperationalError,
                "57P01": OperationalError,
                "57014": OperationalError,
                "42501": ProgrammingError,  # a grant that was taken away
                "40001": OperationalError,
                "XX000": InternalError,
            }.items()
        ),
        *(
            wrapped(pymysql.err.OperationalError(code, ""))
            for code in (0, 1040, 1205, 1213, 1290, 1836, 2006, 2013)
        ),
        wrapped(Psycopg2Error("25006"), InternalError),
        wrapped(sqlite3.OperationalError("attempt to write a readonly database")),
        wrapped(OSError("gone")),
        PoolTimeout("QueuePool limit of size 5 overflow 10 reached"),
        InvalidRequestError("Can't reconnect until invalid transaction is rolled back."),
    ],
    ids=repr,
)
def test_anything_else_is_tried_again(error: Exception) -> None:
    assert not is_refusal(error)


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        (sqlstate("40P01"), True),
        (Psycopg2Error("40P01"), True),
        (pymysql.err.OperationalError(1213, "deadlock"), True),
        (ConnectorError(1205, "HY000"), True),
        (pymysql.err.OperationalError(1305, "SAVEPOINT s does not exist"), True),
        (Exception("40001", "[40001] deadlock victim"), True),
        (sqlstate("25006"), False),
        (sqlite3.OperationalError("no such table: t"), False),
    ],
)
def test_a_deadlock_may_be_tried_again_at_once(original: Exception, expected: bool) -> None:
    assert is_transient(wrapped(original)) is expected


def test_the_description_quotes_no_row() -> None:
    assert describe(wrapped(sqlstate("25006"))) == "ReadOnlySqlTransaction 25006"
    assert describe(wrapped(Psycopg2Error("53100"))) == "Psycopg2Error 53100"
    assert describe(PoolTimeout("limit")) == "TimeoutError"


@pytest.mark.parametrize(
    "error",
    [
        *(
            wrapped(pymysql.err.OperationalError(code, ""))
            for code in (1026, 1044, 1045, 1047, 1049, 1129, 1130, 1197, 1203, 1226, 1305, 1412)
        ),
        *(
            wrapped(pymysql.err.OperationalError(code, ""))
            for code in (1615, 1665, 3100, 3101, 9001)
        ),
        wrapped(sqlstate("XX000"), InternalError),
        OperationalError(None, None, pymysql.err.OperationalError(1698, "Access denied")),
        *(wrapped(lite(name)) for name in ("SQLITE_FULL", "SQLITE_IOERR_READ", "SQLITE_BUSY")),
    ],
    ids=repr,
)
def test_an_error_of_the_database_is_no_rows_own(error: Exception) -> None:
    assert not may_be_of_a_row(error)


@pytest.mark.parametrize(
    "error",
    [
        wrapped(pymysql.err.OperationalError(31001, "a trigger of the app's")),
        wrapped(sqlstate("42501"), ProgrammingError),
        wrapped(sqlstate("23514"), IntegrityError),
        wrapped(lite("SQLITE_ERROR")),  # malformed JSON in a trigger
        DBAPIError(None, None, Psycopg2Error("UE001")),  # a trigger that is deferred to the commit
    ],
    ids=repr,
)
def test_an_error_may_be_a_rows_own(error: Exception) -> None:
    assert may_be_of_a_row(error)
