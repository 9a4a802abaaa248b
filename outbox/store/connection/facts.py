"""What is true of each database, by its dialect's name.

Portable code chooses by these facts. What one database does in another way altogether stands in its
own folder, and `backend` chooses it. Nothing else asks for a dialect's name.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """The facts of one database. The defaults are what is safe for one that is not known."""

    returning: bool = False
    """An UPDATE can return the rows that it has changed."""

    one_writer: bool = False
    """One transaction writes at a time, and ours holds every row from its start."""

    repeatable_read: bool = False
    """By default a plain read sees a snapshot, and a locking read the newest rows. It locks all
    that it passes over, and the gaps beside."""

    arrays: bool = False
    """A list can be one value, so that a statement's text does not depend on its length."""

    keeps_index_entries: bool = False
    """The index entry of a claimed email stays until a vacuum, and each search reads it again."""

    slow_executemany: bool = False
    """The driver sends a statement for each row."""

    prepares: bool = False
    """The driver may prepare statements by itself."""

    streams_rows: bool = False
    """Rows that nobody has read are on the wire, and the next statement discards them."""

    begins_late: bool = False
    """The driver begins a transaction at the first write only. A savepoint is none."""

    is_file: bool = False
    """The database is a file, or in the memory of one process."""

    drivers: tuple[str, ...] = ()
    """With another driver messages are enqueued and none is ever sent, as with pg8000. Where there
    are none nothing is known of them."""

    extra: str | None = None
    """The extra of this package that installs a driver."""


_POSTGRESQL = Facts(
    returning=True,
    arrays=True,
    keeps_index_entries=True,
    slow_executemany=True,
    prepares=True,
    drivers=("psycopg", "psycopg2", "psycopg2cffi"),
    extra="postgresql",
)
_SQLITE = Facts(
    returning=True, one_writer=True, begins_late=True, is_file=True, drivers=("pysqlite",)
)
_MYSQL = Facts(
    repeatable_read=True,
    streams_rows=True,
    drivers=("pymysql", "mysqldb", "cymysql"),
    extra="mysql",
)
_FACTS = {"postgresql": _POSTGRESQL, "sqlite": _SQLITE, "mysql": _MYSQL, "mariadb": _MYSQL}
_UNKNOWN = Facts()


def facts_of(dialect: str) -> Facts:
    """Return the facts of the database of this dialect's name."""
    return _FACTS.get(dialect, _UNKNOWN)
