"""Our own transactions: short, retried on deadlock, and never open while SMTP is spoken."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Row
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from .clock import clock
from .models import Tables

Result = TypeVar("Result")

TRIES = 8
STATEMENTS = 200
"""Statements that are kept at most. The keys are few: sizes of batches, lanes, priorities."""

_POLL = 0.001
"""Seconds between two tries for SQLite's write lock, about."""

_SERVER_ERRORS = frozenset({1040, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1290, 1836})
"""MariaDB and MySQL: too many connections, shutdown, broken or slow network, read-only."""

_RETRIED_STATES = frozenset({"40001", "40P01"})  # PostgreSQL: serialisation failure, deadlock
_RETRIED_ERRORS = frozenset({1020, 1205, 1213})  # MariaDB, MySQL: changed row, lock wait, deadlock


class Database:
    """An engine and our tables on it.

    `offset` seconds are added to the database's clock: tests travel in time with it. On SQLite a
    transaction waits `patience` seconds for the write lock; a lease must be over twice as long.
    """

    def __init__(
        self, engine: Engine, tables: Tables, *, offset: float = 0.0, patience: float = 10.0
    ) -> None:
        self.engine = engine
        self.tables = tables
        self.offset = offset
        self.patience = patience
        self._built: dict[Hashable, Any] = {}

    @property
    def dialect(self) -> str:
        """The dialect's name: postgresql, sqlite, mariadb, mysql."""
        return self.engine.dialect.name

    def now(self, seconds: float = 0.0) -> clock:
        """Return the SQL expression for the database's time in `seconds`."""
        return clock(self.offset + seconds)

    def built(self, build: Callable[..., Result], *key: Hashable) -> Result:
        """Return the statement that `build` makes of this database and this key, made once.

        Building one in Python takes longer than running it. It may hold the database's time, so
        each clock offset has its own.
        """
        place = (build, self.offset, *key)
        if place not in self._built:
            if len(self._built) >= STATEMENTS:
                self._built.clear()
            self._built[place] = build(self, *key)
        found: Result = self._built[place]
        return found

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one transaction and commit it; run it again on a deadlock.

        `work` must do nothing but SQL, because it may run several times.
        """
        for left in reversed(range(TRIES)):
            try:
                with self.transaction() as connection:
                    return work(connection)
            except DBAPIError as error:
                _wait_or_raise(error, left)
        raise AssertionError("unreachable")

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work`, which only reads, in autocommit: it takes no lock and no round trip more."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return work(connection)

    def run_alone(self, statement: str, values: dict[str, Any]) -> Sequence[Row[Any]]:
        """Run one statement in the driver's own form as a transaction; retried on a deadlock.

        In autocommit it is one round trip instead of three.
        """
        autocommit = {"isolation_level": "AUTOCOMMIT"}
        for left in reversed(range(TRIES)):
            try:
                with self.engine.connect().execution_options(**autocommit) as connection:
                    return connection.exec_driver_sql(statement, values).all()
            except DBAPIError as error:
                _wait_or_raise(error, left)
        raise AssertionError("unreachable")

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a transaction that commits at the end of the block."""
        options = {"isolation_level": "READ COMMITTED"}
        if self.dialect == "sqlite":
            options = {"isolation_level": "AUTOCOMMIT"}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            if self.dialect == "sqlite":
                _begin_immediate(connection, self.patience)
            yield connection


def _begin_immediate(connection: Connection, patience: float) -> None:
    """Take SQLite's write lock now: a transaction that reads first could not take it later.

    Durability is set here too, because the app may have chosen less for itself.
    """
    driver: Any = connection.connection.dbapi_connection
    if getattr(driver, "in_transaction", False):
        connection.exec_driver_sql("ROLLBACK")  # the app's own "begin" listener opened one
    connection.exec_driver_sql("PRAGMA synchronous = FULL")
    connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    begun = _begun_within(driver, patience)
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(patience * 1000)}")
    if not begun:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # SQLAlchemy's error, if it fails again


def _begun_within(driver: Any, patience: float) -> bool:
    """Ask for the write lock every other millisecond or so; False after `patience` seconds.

    SQLite itself would sleep for longer and longer, up to a tenth of a second, where another's
    window is recorded in a few milliseconds: two workers would wait more than they work.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            driver.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                return False
            time.sleep(_POLL * (0.5 + random.random()))  # noqa: S311
        else:
            return True


def _wait_or_raise(error: DBAPIError, left: int) -> None:
    error.hide_parameters = True  # addresses do not belong in logs
    if left == 0 or not is_transient(error):
        raise error
    # Full jitter: two that met in a deadlock must not meet again.
    time.sleep(random.random() * 0.05 * (TRIES - left))  # noqa: S311


def is_transient(error: DBAPIError) -> bool:
    """Return whether the same transaction may succeed when it is tried again."""
    original = error.orig
    if getattr(original, "sqlstate", None) in _RETRIED_STATES:
        return True
    arguments = getattr(original, "args", ())
    if arguments and arguments[0] in _RETRIED_ERRORS:
        return True
    return type(original).__module__ == "sqlite3" and "locked" in str(original)


def is_outage(error: DBAPIError) -> bool:
    """Return whether the database was away or too busy, as opposed to refusing what it was told.

    PyMySQL calls every error that it has no name for operational, a violated constraint included,
    so its numbers decide: from 2000 to 2999 they are the client's own, of a lost connection.
    """
    if error.connection_invalidated or is_transient(error):
        return True
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    code = next(iter(getattr(error.orig, "args", ())), None)
    if type(error.orig).__module__.startswith("pymysql") and isinstance(code, int):
        return code in _SERVER_ERRORS or code == 0 or 2000 <= code < 3000
    return True
