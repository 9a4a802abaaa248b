"""Asks a PostgreSQL server which database it is, and which of its settings are a risk."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from sqlalchemy import Connection, text

_IDENTITY = (
    "SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()"
)
_READ_ONLY = "SELECT current_setting('transaction_read_only')"
_REPLICA = (
    "plain reads go to a replica, or to a database that is read-only: workers see old figures and"
    " no new emails. Send all of the app's statements to the primary (with Pgpool-II by"
    " app_name_redirect_preference_list, or load_balance_mode = off)"
)
_DEAD = text("""
SELECT relname AS name, n_dead_tup AS dead, n_live_tup AS living
FROM pg_stat_user_tables
WHERE relid = ANY (CAST(CAST(:names AS text[]) AS regclass[]))
  AND n_dead_tup > :most AND n_dead_tup > n_live_tup / 5
  AND COALESCE(GREATEST(last_vacuum, last_autovacuum), '-infinity')
      < clock_timestamp() - INTERVAL '5 minutes'
ORDER BY relname
""")
_OLDEST = """
SELECT CAST(max(EXTRACT(epoch FROM clock_timestamp() - xact_start)) AS float)
FROM pg_stat_activity
WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
"""
_MOST_DEAD = 50_000
"""Dead rows that a busy table may have between two vacuums of ours: see HOT_OPTIONS."""
_LONG = 60.0
"""Seconds after which an open transaction is told of: no vacuum removes what it may still see."""

_DURABLE = ("synchronous_commit", "fsync", "full_page_writes")


def identity(connection: Connection) -> Hashable:
    """Return a value that identifies the server and the database. It needs no privilege."""
    return tuple(connection.exec_driver_sql(_IDENTITY).one())


def durability_warnings(connection: Connection) -> list[str]:
    """Return a warning for each setting with which the server may lose a commit."""
    shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in _DURABLE}
    return [f"PostgreSQL's {name} is off" for name, value in shown.items() if value == "off"]


def idle_warnings(connection: Connection) -> list[str]:
    """Return a warning if an idle transaction keeps its locks for as long as TCP lives."""
    name = "idle_in_transaction_session_timeout"
    limit = connection.exec_driver_sql(f"SHOW {name}").scalar()
    return [f"{name} is 0"] if limit == "0" else []


def replica_warnings(connection: Connection) -> list[str]:
    """Return a warning if this connection, which is in autocommit, reads from a replica.

    A proxy that distributes reads sends this statement where it sends those of a sweep.
    """
    found = connection.exec_driver_sql(_READ_ONLY).scalar()
    return [_REPLICA] if found == "on" else []


def vacuum_warnings(connection: Connection, names: Sequence[str]) -> list[str]:
    """Return a warning for each of these tables with many dead rows that no vacuum removed.

    Each claim and each search reads over them. Sessions of other roles may be hidden from us.
    """
    dead = connection.execute(_DEAD, {"names": list(names), "most": _MOST_DEAD}).all()
    found = [f"{row.name} has {row.dead} dead rows beside {row.living} living ones" for row in dead]
    if not found:
        return []
    if connection.exec_driver_sql("SHOW autovacuum").scalar() == "off":
        why = "autovacuum is off"
    else:
        oldest = connection.exec_driver_sql(_OLDEST).scalar() or 0.0
        open_ = f"one has been open for {oldest:.0f} s" if oldest > _LONG else "none is seen now"
        why = f"autovacuum lags, mostly because a transaction stays open ({open_})"
    return [f"{line}: {why}; end it, and run VACUUM" for line in found]
