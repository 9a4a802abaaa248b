"""Finds out whether commits wait for a synchronous replica, and for how long.

Where none is there that `synchronous_standby_names` asks for, each commit waits until one is back.
No statement fails, no time-out ends the wait, and the server's log is silent.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Connection, TextualSelect, text

# A role sees the waits of its own sessions, and those of others with pg_read_all_stats.
_FOUND = """
SELECT count(*) AS sessions, CAST(
        max(EXTRACT(epoch FROM clock_timestamp() - query_start)) AS bigint
    ) AS seconds, current_setting('synchronous_standby_names') AS names
FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND datname = current_database()
"""

waits: TextualSelect = text(
    f"SELECT seconds FROM ({_FOUND}) AS found WHERE sessions > 0"  # noqa: S608  (fixed texts)
).columns(seconds=BigInteger())
"""The statement for how long the longest has waited, if any does."""


def lines(connection: Connection, least: float) -> list[str]:
    """Return a line, with the remedy, if a commit has waited for `least` seconds."""
    found = connection.execute(text(_FOUND)).one()
    if not found.sessions or found.seconds < least:
        return []
    many = found.sessions > 1
    told = f"{found.sessions} sessions have" if many else "1 session has"
    return [
        "commits wait for a synchronous replica (synchronous_standby_names ="
        f" {found.names}): {told} waited for {found.seconds} s{' at most' * many}:"
        " start the replica, or take it out of synchronous_standby_names and reload;"
        " but if it was promoted, stop this server: else emails go twice"
    ]
