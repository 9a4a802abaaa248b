"""Finds the privileges on the outbox's tables that the role of a connection lacks."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

# The search path leaves out a schema that the role may not use. Then no table is visible, and only
# the setting's own words tell which schema is meant. A sequence that a table owns is in the table's
# schema; UPDATE of it allows nextval, too. CASE, because a table also owns what is no sequence.
_LACKING = text("""
WITH path AS (
    SELECT COALESCE(NULLIF(btrim(entry, ' "'), '$user'), current_user) AS nspname
    FROM unnest(string_to_array(current_setting('search_path'), ',')) AS entry
), ours AS (
    SELECT c.oid, c.relname, n.nspname, has_schema_privilege(n.oid, 'USAGE') AS may_use
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relname = ANY (CAST(:names AS text[]))
      AND CASE WHEN CAST(:schema AS text) IS NOT NULL THEN n.nspname = CAST(:schema AS text)
        WHEN has_schema_privilege(n.oid, 'USAGE') THEN pg_table_is_visible(c.oid)
        ELSE to_regclass(quote_ident(c.relname)) IS NULL
          AND n.nspname IN (SELECT nspname FROM path)
        END
), lacking AS (
    SELECT DISTINCT 1 AS rank, 'USAGE' AS privilege, 'SCHEMA ' AS kind, quote_ident(nspname) AS name
    FROM ours WHERE NOT may_use
    UNION ALL
    SELECT 1 + rank, privilege, '', format('%I.%I', nspname, relname)
    FROM ours CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'])
        WITH ORDINALITY AS needed (privilege, rank)
    WHERE NOT has_table_privilege(oid, privilege)
    UNION ALL
    SELECT 6, 'USAGE', 'SEQUENCE ', format('%I.%I', ours.nspname, s.relname)
    FROM ours JOIN pg_depend AS d
        ON d.refclassid = CAST('pg_class' AS regclass) AND d.refobjid = ours.oid
        AND d.classid = CAST('pg_class' AS regclass) AND d.deptype IN ('a', 'i')
    JOIN pg_class AS s ON s.oid = d.objid
    WHERE CASE s.relkind WHEN 'S' THEN NOT has_sequence_privilege(s.oid, 'USAGE, UPDATE') END
), objects AS (
    SELECT kind, name, min(rank) AS rank, string_agg(privilege, ', ' ORDER BY rank) AS privileges
    FROM lacking GROUP BY kind, name
)
SELECT quote_ident(current_user) AS role, privileges, kind,
    string_agg(name, ', ' ORDER BY name) AS names
FROM objects GROUP BY privileges, kind ORDER BY min(rank), privileges
""")


def lacking_privileges(
    connection: Connection, names: Sequence[str], schema: str | None
) -> list[str]:
    """Return a line, with the GRANT, for each set of privileges that the role lacks.

    `names` are those of our tables; without `schema` the search path tells where they are. Workers,
    commands and a purge share one role, so each table needs all four privileges. An enqueue of many
    emails calls nextval itself, so an identity column needs its sequence like any other.
    """
    found = connection.execute(_LACKING, {"names": list(names), "schema": schema})
    return [
        f"the role {row.role} lacks a privilege:"
        f" GRANT {row.privileges} ON {row.kind}{row.names} TO {row.role}"
        for row in found
    ]
