"""What tests have written to a database of a MariaDB, as its own statistics tell."""

from __future__ import annotations

from typing import Any, ClassVar

import pymysql
from sqlalchemy import make_url

from tests.support.servers.databases.lending import Watch

_OTHERS = "SELECT count(*) FROM information_schema.processlist WHERE db = %s"

_CHANGED = """
SELECT table_name, rows_changed FROM information_schema.table_statistics
WHERE table_schema = %s AND rows_changed > 0
"""
"""Each table with the number of its rows that were written, also of those rolled back."""

_NUMBERED = """
SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND auto_increment > 1
"""
"""The tables that have given a number, also if the row was refused."""

_OTHER_STATEMENTS = """
SELECT sum(variable_value) FROM information_schema.global_status
WHERE variable_name LIKE 'Com\\_%' AND variable_name NOT LIKE 'Com\\_show\\_%'
AND substr(variable_name, 5) NOT IN (
    'begin', 'commit', 'rollback', 'savepoint', 'release_savepoint', 'rollback_to_savepoint',
    'select', 'insert', 'insert_select', 'update', 'update_multi', 'delete', 'delete_multi',
    'replace', 'replace_select', 'truncate', 'do', 'empty_query', 'set_option', 'change_db', 'kill',
    'lock_tables', 'unlock_tables', 'stmt_prepare', 'stmt_reprepare', 'stmt_execute', 'stmt_fetch',
    'stmt_send_long_data', 'stmt_reset', 'stmt_close'
)
"""
"""How many statements were executed that may write more than rows.

TRUNCATE is not among them: it makes the table anew. A prepared statement is counted as itself too.
"""


class WatchedMariaDB(Watch):
    """Truncates what was written: this makes the table anew. It needs the server's `userstat`.

    Any statement on the server that may change more than rows, in whatever database, is taken for
    one that has changed this.
    """

    errors: ClassVar[type[Exception]] = pymysql.err.Error

    def __init__(self, url: str) -> None:
        made = make_url(url)
        self._name = made.database
        self._link = pymysql.connect(
            host=made.host, port=made.port or 0, user="root", autocommit=True, ssl_disabled=True
        )
        self._ask("SET foreign_key_checks = 0")  # TRUNCATE refuses a table that others refer to
        self._unfit = bool(self._ask(_CHANGED, self._name))

    def begin(self) -> None:
        """Note what has been counted so far."""
        self._rows = dict(self._changed())
        self._statements = self._ask(_OTHER_STATEMENTS)

    def others(self) -> int:
        """Return how many others are connected to the database."""
        return int(self._ask(_OTHERS, self._name)[0][0])

    def empty(self) -> bool:
        """Truncate what was written, or return False if there was another statement."""
        if self._unfit or self._ask(_OTHER_STATEMENTS) != self._statements:
            return False
        written = {table for table, rows in self._changed() if self._rows.get(table) != rows}
        written |= {table for (table,) in self._ask(_NUMBERED, self._name)}
        for table in sorted(written):
            self._ask(f"TRUNCATE `{self._name}`.`{table}`")
        return True

    def close(self) -> None:
        """End its session."""
        if self._link.open:
            self._link.close()

    def _changed(self) -> tuple[tuple[Any, ...], ...]:
        return self._ask(_CHANGED, self._name)

    def _ask(self, statement: str, *values: object) -> tuple[tuple[Any, ...], ...]:
        with self._link.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall()
