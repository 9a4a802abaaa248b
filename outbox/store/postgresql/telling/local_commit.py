"""Has a commit on PostgreSQL wait for no synchronous replica. Only what merely tells may do so.

Where that replica is gone, each other commit waits until it is back, and no time-out ends that. A
mark would then not tell that its process lives, and nobody could be told what it waits for. A mark
that a failover loses is soon left again.
"""

from __future__ import annotations

from sqlalchemy import Connection

LOCALLY = """set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'off' ELSE 'local' END, true)"""
"""Does so until the end of its transaction, in a statement that is written by hand."""


def commit_locally(connection: Connection) -> None:
    """Have this transaction do so."""
    connection.exec_driver_sql(f"SELECT {LOCALLY}")
