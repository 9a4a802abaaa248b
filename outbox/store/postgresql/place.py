"""Asks PostgreSQL which cluster, timeline, database and table the outbox is in."""

from __future__ import annotations

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from ...domain.instance import DatabasePlace
from ..connection.error_codes import is_outage

# The OID of a table is a new one when a dump is loaded, and stays the same in a physical copy.
_PLACE = text("""
SELECT pg_is_in_recovery() AS is_standby,
    CASE WHEN pg_is_in_recovery() THEN ''
        ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS timeline,
    (SELECT oid FROM pg_database WHERE datname = current_database())
        || '/' || CAST(CAST(CAST(:table AS text) AS regclass) AS oid) AS home,
    has_function_privilege('pg_control_system()', 'EXECUTE') AS may_ask
""")
_CLUSTER = "SELECT CAST(system_identifier AS text) FROM pg_control_system()"


def place(connection: Connection, table: str) -> DatabasePlace:
    """Return where the table is; what a provider forbids to ask is left empty."""
    try:
        row = connection.execute(_PLACE, {"table": table}).one()
        cluster = connection.exec_driver_sql(_CLUSTER).scalar_one() if row.may_ask else ""
    except DBAPIError as error:  # what only speaks PostgreSQL's protocol may lack a function
        if is_outage(error):
            raise
        return DatabasePlace()
    return DatabasePlace(
        cluster=cluster, timeline=row.timeline, home=row.home, is_standby=row.is_standby
    )
