"""What is in a database, as its own tools tell: two that are the same give the same text."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tests.support.servers.databases.lending import LendingServer
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.missing import missing

_ITS_OWN = re.compile(r"^\\(un)?restrict .*$|^-- (Dump completed|Host:).*$|test_[0-9a-f]{32}", re.M)
"""What two dumps of one database differ in, and the database's name."""

_STATISTICS = {
    "postgresql": """
SELECT c.oid, c.relname, c.relpages, c.reltuples, pg_relation_size(c.oid), n_live_tup,
n_dead_tup, n_mod_since_analyze, n_tup_ins, vacuum_count + analyze_count AS counted,
(SELECT count(*) FROM pg_statistic WHERE starelid >= 16384) AS analyzed
FROM pg_class AS c LEFT JOIN pg_stat_user_tables ON relid = c.oid
WHERE c.oid >= 16384 ORDER BY c.oid
""",
    "mariadb": """
SELECT table_name, n_rows, clustered_index_size, sum_of_other_index_sizes
FROM mysql.innodb_table_stats WHERE database_name = database() ORDER BY 1
""",
}
"""What the planner knows, and the sizes."""


def execute(url: str, *statements: str) -> list[Any]:
    """Execute each by itself, in autocommit, and return the rows of the last."""
    engine = sa.create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
        rows = [tuple(row) for row in result] if result.returns_rows else []
        connection.invalidate()  # without a word more: a prepared transaction allows none
    return rows


def described(server: LendingServer, url: str) -> str:
    """Return its dump, and its statistics, without its name."""
    told = subprocess.run(_dump(server, url), capture_output=True, text=True, check=True).stdout
    rows = execute(url, _STATISTICS[server.name])
    return _ITS_OWN.sub("", told + "\n".join(map(str, rows)))


def _dump(server: LendingServer, url: str) -> list[str]:
    made = sa.make_url(url)
    host, port, name = str(made.host), str(made.port), str(made.database)
    if isinstance(server, Postgres):
        plain = made.set(drivername="postgresql").render_as_string(hide_password=False)
        return [str(server.binaries / "pg_dump"), "--create", plain]
    program = shutil.which("mariadb-dump") or missing("MariaDB", "apt install mariadb-client")
    words = ["--routines", "--events", "--triggers", f"--host={host}", f"--port={port}"]
    return [program, "--no-defaults", "--user=root", "--skip-ssl", *words, name]
