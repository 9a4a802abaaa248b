"""Properties of each database, by its dialect's name.

Portable code chooses by these facts. An operation that one database does in a very different way
stands in its own folder, and `backend` chooses it. No other code chooses by a dialect's name. A few
files name one to SQLAlchemy, for a hint, a type or the clock; `test_dialects.py` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """The facts of one database. The defaults are safe for an unknown database."""

    returning: bool = False
    """An UPDATE can return the rows that it has changed."""

    one_writer: bool = False
    """Only one transaction writes at a time. The outbox's own holds every row from its start."""

    repeatable_read: bool = False
    """By default a plain read sees a snapshot, and a locking read sees the newest rows. A locking
    read locks all rows that it reads, and the gaps beside them."""

    arrays: bool = False
    """A list can be one value, so that a statement's text does not depend on the list's length."""

    keeps_index_entries: bool = False
    """The index entry of a claimed email stays until a vacuum, and each search reads it again."""

    slow_executemany: bool = False
    """The driver's `executemany` sends a statement for each row."""

    prepares: bool = False
    """The driver may prepare statements on its own."""

    streams_rows: bool = False
    """Unread rows are still on the wire, and the next statement discards them."""

    begins_late: bool = False
    """The driver begins a transaction only at the first write. A savepoint does not count."""

    begins_again: bool = False
    """Where an error ends a transaction, the next statement begins another one."""

    driver_use: str = ""
    """The attribute of the driver's connection that a statement over its own cursor may change."""

    driver_writes: str = ""
    """The attribute of the driver's connection that counts the rows it has written. MariaDB and
    MySQL tell this only with the privilege PROCESS."""

    checks_now: str = ""
    """The statement that has constraints checked now and no longer at the commit."""

    may_be_of_a_cluster: bool = False
    """The server may be a Galera node: what others have committed, it may apply later."""

    is_file: bool = False
    """The database is a file, or in the memory of one process."""

    drivers: tuple[str, ...] = ()
    """The drivers that work. With another one, such as pg8000, emails are enqueued but never sent.
    Empty: the drivers are not known."""

    extra: str | None = None
    """The extra of this package that installs a driver."""


_POSTGRESQL = Facts(
    returning=True,
    arrays=True,
    keeps_index_entries=True,
    slow_executemany=True,
    prepares=True,
    checks_now="SET CONSTRAINTS ALL IMMEDIATE",
    drivers=("psycopg", "psycopg2", "psycopg2cffi"),
    extra="postgresql",
)
_SQLITE = Facts(
    returning=True,
    one_writer=True,
    begins_late=True,
    begins_again=True,
    driver_use="in_transaction",
    driver_writes="total_changes",
    is_file=True,
    drivers=("pysqlite",),
)
_MYSQL = Facts(
    repeatable_read=True,
    streams_rows=True,
    begins_again=True,
    driver_use="_result",
    may_be_of_a_cluster=True,
    drivers=("pymysql", "mysqldb", "cymysql"),
    extra="mysql",
)
_FACTS = {"postgresql": _POSTGRESQL, "sqlite": _SQLITE, "mysql": _MYSQL, "mariadb": _MYSQL}
_UNKNOWN = Facts()
_UNTRIED = ("mssql",)
"""Databases without facts, for which there is a clock: they get portable statements."""


def facts_of(dialect: str) -> Facts:
    """Return the facts of the database with this dialect name."""
    return _FACTS.get(dialect, _UNKNOWN)


def is_known(dialect: str) -> bool:
    """Return whether the facts of this database are known."""
    return dialect in _FACTS


def is_possible(dialect: str) -> bool:
    """Return whether there are statements for this database, though they may be untried."""
    return dialect in (*_FACTS, *_UNTRIED)
