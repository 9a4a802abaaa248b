"""Very many emails in a second, and what a database reads for a piece of work."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event

_EMAIL = {
    "id": "g", "content_id": "g", "created_at": "{at}", "finished_at": "{at}", "size": "500",
    "priority": "1", "attempts": "1", "crashes": "0", "unknown_count": "0", "recipients": "1",
    "smtputf8": "{no}", "eightbit": "{no}", "status": "'{status}'", "lane": "''",
    "sender": "'shop@shop.example'", "recipient": "'reader@readers.example'",
    "message_id": "'<1@shop.example>'", "headers": "{octet}",
}  # fmt: skip
_CONTENT = {"id": "g", "size": "1", "crc32": "1", "body": "{octet}", "created_at": "{at}"}
_ATTEMPT = {
    "email_id": "g", "started_at": "{at}", "finished_at": "{at}", "verdict": "'sent'",
    "phase": "'dot'", "code": "250", "enhanced": "'2.0.0'", "reply": "'ok'", "worker": "'host:1'",
    "server": "'mx:25'",
}  # fmt: skip

_SERIES = "WITH RECURSIVE s (g) AS (SELECT {first} UNION ALL SELECT g + 1 FROM s WHERE g < {last})"
_DIALECTS = {
    "postgresql": {
        "at": "clock_timestamp() + g * interval '1 minute'",
        "no": "false",
        "octet": "'\\x41'::bytea",
        "series": "generate_series({first}, {last}) AS s (g)",
        "analyze": "ANALYZE {table}",
        "sequence": "SELECT setval(pg_get_serial_sequence('outbox_{table}', 'id'), {last})",
    },
    "sqlite": {
        "at": "strftime('%Y-%m-%d %H:%M:%f000', 'now', g || ' minutes')",
        "no": "0",
        "octet": "x'41'",
        "series": "(" + _SERIES + " SELECT g FROM s) AS s",
        "analyze": "ANALYZE {table}",
    },
    "mariadb": {
        "at": "utc_timestamp(6) + INTERVAL g MINUTE",
        "no": "0",
        "octet": "x'41'",
        "series": "(SELECT seq AS g FROM seq_{first}_to_{last}) AS s",
        "analyze": "ANALYZE TABLE {table}",
    },
}


def finish(engine: Engine, first: int, last: int, status: str = "sent") -> None:
    """Leave finished emails with these ids behind, each with a content and an attempt of its own.

    The one with the id n was made, and has finished, n minutes from now on.
    """
    words = _DIALECTS[engine.dialect.name]
    series = words["series"].format(first=first, last=last)
    with _autocommit(engine) as connection:
        for table, columns in (("content", _CONTENT), ("email", _EMAIL), ("attempt", _ATTEMPT)):
            values = ", ".join(columns.values()).format(**words, status=status)
            connection.exec_driver_sql(
                f"INSERT INTO outbox_{table} ({', '.join(columns)}) SELECT {values} FROM {series}"
            )
            connection.exec_driver_sql(words["analyze"].format(table=f"outbox_{table}"))
            if "sequence" in words and "id" in columns:  # elsewhere it goes on behind the last id
                connection.exec_driver_sql(words["sequence"].format(table=table, last=last))


@contextmanager
def _autocommit(engine: Engine) -> Iterator[Connection]:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


_FIGURES = {
    "postgresql": (
        "SELECT pg_stat_force_next_flush()",
        "SELECT 'pages', sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)"
        " FROM pg_statio_user_tables"
        " UNION ALL SELECT 'rows', sum(seq_tup_read + coalesce(idx_tup_fetch, 0))"
        " FROM pg_stat_user_tables",
    ),
    "mariadb": ("SHOW SESSION STATUS LIKE 'Handler_read%%'",),
}


class Reading:
    """Counts what the database reads for the outbox's tables, in its own measure.

    PostgreSQL tells pages and rows, MariaDB its storage engine's reads, and SQLite has no such
    figure: there the steps of its virtual machine are counted by tens.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._dialect = engine.dialect.name
        self._steps = 0
        if self._dialect == "sqlite":
            self._engine.dispose()
            event.listen(self._engine, "connect", self._count_steps)

    def of(self, work: Callable[[], object]) -> Counter[str]:
        """Return what was read for the work, which must use one connection only."""
        before = self._now()
        work()
        read = self._now()
        read.subtract(before)
        return read

    def _count_steps(self, connection: sqlite3.Connection, _: object) -> None:
        def step() -> int:
            self._steps += 1
            return 0

        connection.set_progress_handler(step, 10)

    def _now(self) -> Counter[str]:
        if self._dialect == "sqlite":
            return Counter(steps=self._steps)
        found = Counter[str]()
        with _autocommit(self._engine) as connection:
            for statement in _FIGURES[self._dialect]:
                rows = connection.exec_driver_sql(statement).all()
        for name, number in rows:
            found[name.partition("_")[0]] += int(number)
        return found
