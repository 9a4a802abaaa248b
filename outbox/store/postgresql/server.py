"""Asks a PostgreSQL server which database it is, and which of its settings are a risk."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

_IDENTITY = (
    "SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()"
)
_READ_ONLY = """
SELECT current_setting('transaction_read_only') = 'on' AS refuses_writes,
    current_setting('default_transaction_read_only') = 'on'
        AND current_setting('in_hot_standby', true) IS DISTINCT FROM 'on' AS by_setting
"""
"""Stable functions only. Pgpool-II sends a volatile one, as pg_is_in_recovery() is, to the primary,
and so it would not tell where a sweep's reads go."""

_SETTING = """
SELECT source, quote_ident(session_user) AS role, quote_ident(current_database()) AS database
FROM pg_settings WHERE name = 'default_transaction_read_only'
"""
_REFUSES = (
    "default_transaction_read_only is on {where}, so each write fails (25006), and nothing can be"
    " enqueued or sent: {remedy}, and start the processes anew"
)
_RESET = "RESET default_transaction_read_only"
_OF_SERVER = (
    "for the whole server",
    f"ALTER SYSTEM {_RESET}, or mend postgresql.conf; then SELECT pg_reload_conf()",
)
_SOURCES = {
    "user": ("for the role {role}", f"ALTER ROLE {{role}} {_RESET}"),
    "database": ("for the database {database}", f"ALTER DATABASE {{database}} {_RESET}"),
    "database user": (
        "for the role {role} in the database {database}",
        f"ALTER ROLE {{role}} IN DATABASE {{database}} {_RESET}",
    ),
    "global": ("for all roles", f"ALTER ROLE ALL {_RESET}"),
    "client": (
        "by the connection's options",
        "take it out of the engine's URL, of connect_args or of PGOPTIONS",
    ),
    "session": ("by a SET of the session", "take this SET out of the app"),
}
"""By pg_settings.source: where the setting stands, and what takes it away."""

_DATE_STYLE = (
    "DateStyle is {style} in this engine's sessions, and psycopg reads no moments in that: set it"
    " to ISO (ALTER ROLE … SET datestyle = ISO, or for the database, or in the engine's options)"
)

_ENCODINGS = "SELECT current_setting('server_encoding'), current_setting('client_encoding')"
_ENCODING = (
    "{}, so an email with any other character cannot be enqueued: have both be UTF8 (ALTER ROLE …"
    " SET client_encoding; a database gets its encoding when it is made)"
)

_REPLICA = (
    "plain reads go to a replica, or to a database that is read-only: workers see old figures and"
    " no new emails. Send all of the app's statements to the primary (with Pgpool-II by"
    " app_name_redirect_preference_list, or load_balance_mode = off)"
)
_ELSEWHERE = text("""
SELECT quote_ident(nspname) AS name, has_schema_privilege(pg_namespace.oid, 'USAGE') AS is_usable,
    current_setting('search_path') AS path, quote_ident(current_user) AS role
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relname = CAST(:name AS text) AND relkind IN ('r', 'p') AND relpersistence <> 't'
    AND to_regclass(quote_ident(CAST(:name AS text))) IS NULL
ORDER BY nspname LIMIT 4
""")
_SHOWN = 3
_OTHER = (
    "the outbox's tables stand in the schema{s} {schemas}, which the search_path of this role"
    " ({path}) does not name: mend it (ALTER ROLE … SET search_path), or name the schema in the"
    " metadata (MetaData(schema=…)). Migrations would make a second, empty outbox: run them only if"
    " you want one"
)
_BARRED = (
    "the outbox's tables stand in the schema {schema}, which this role may not use:"
    " GRANT USAGE ON SCHEMA {schema} TO {role}. Migrations would make a second, empty outbox"
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


def session_errors(connection: Connection) -> list[str]:
    """Return a line if the server writes moments in a way that psycopg does not read.

    Other drivers read each, or set the style themselves.
    """
    style = str(connection.exec_driver_sql("SHOW DateStyle").scalar())
    is_read = connection.dialect.driver != "psycopg" or style.startswith("ISO")
    return [] if is_read else [_DATE_STYLE.format(style=style)]


def encoding_warnings(connection: Connection) -> list[str]:
    """Return a line if not every character can be stored. SQL_ASCII takes each octet as it is."""
    stored, sent = connection.exec_driver_sql(_ENCODINGS).one()
    wrong = [] if stored in ("UTF8", "SQL_ASCII") else [f"the database's encoding is {stored}"]
    wrong += [] if sent == "UTF8" else [f"client_encoding is {sent} in this engine's sessions"]
    return [_ENCODING.format(" and ".join(wrong))] if wrong else []


def durability_warnings(connection: Connection) -> list[str]:
    """Return a warning for each setting with which the server may lose a commit."""
    shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in _DURABLE}
    return [f"PostgreSQL's {name} is off" for name, value in shown.items() if value == "off"]


def idle_warnings(connection: Connection) -> list[str]:
    """Return a warning if an idle transaction keeps its locks for as long as TCP lives."""
    name = "idle_in_transaction_session_timeout"
    limit = connection.exec_driver_sql(f"SHOW {name}").scalar()
    return [f"{name} is 0"] if limit == "0" else []


def read_only_errors(connection: Connection) -> list[str]:
    """Return a line if it is by a setting, and not as a standby, that the server takes no writes.

    The line names where the setting stands, and what takes it away.
    """
    found = _read_only(connection)
    if not (found.refuses_writes and found.by_setting):
        return []
    row = connection.exec_driver_sql(_SETTING).one()
    names = {"role": row.role, "database": row.database}
    where, remedy = (part.format(**names) for part in _SOURCES.get(row.source, _OF_SERVER))
    return [_REFUSES.format(where=where, remedy=remedy)]


def replica_warnings(connection: Connection) -> list[str]:
    """Return a warning if this connection, which is in autocommit, reads from a replica.

    A proxy that distributes reads sends this statement where it sends those of a sweep.
    """
    found = _read_only(connection)
    return [_REPLICA] if found.refuses_writes and not found.by_setting else []


def _read_only(connection: Connection) -> Row[Any]:
    return connection.exec_driver_sql(_READ_ONLY).one()


def elsewhere(connection: Connection, name: str) -> str | None:
    """Return in which other schemas a table of this name stands, with the remedy, or None.

    Asked where the search path does not lead to such a table.
    """
    rows = connection.execute(_ELSEWHERE, {"name": name}).all()
    if not rows:
        return None
    first = rows[0]
    if len(rows) == 1 and not first.is_usable:
        return _BARRED.format(schema=first.name, role=first.role)
    schemas = ", ".join(row.name for row in rows[:_SHOWN]) + ", …" * (len(rows) > _SHOWN)
    return _OTHER.format(schemas=schemas, s="s" * (len(rows) > 1), path=first.path)


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
