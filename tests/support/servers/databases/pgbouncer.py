"""PgBouncer: Debian's pgbouncer, before a PostgreSQL of the tests."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import psycopg
from sqlalchemy import make_url

from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, free_port
from tests.support.servers.server import UNPRIVILEGED, Server

_CONFIGURATION = """
[databases]
* = host={host} port={target}

[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
admin_users = postgres
pool_mode = {mode}
default_pool_size = {connections}
max_client_conn = 500
query_wait_timeout = {patience}
"""


class PgBouncer(Server):
    """A few `connections` to the PostgreSQL on `target`, each lent for what `mode` says.

    Which of them a client gets is chance: its next transaction may find another, or one on which
    another client has left something.
    """

    name: ClassVar[str] = "pgbouncer"
    owner: ClassVar[int | None] = UNPRIVILEGED

    def __init__(
        self,
        target: int,
        mode: Literal["transaction", "session", "statement"],
        *,
        connections: int = 4,
        patience: int = 120,
    ) -> None:
        """`patience`: how many seconds a client waits for a connection."""
        self.port = free_port()
        self._target = target
        self.mode = mode
        self._connections = connections
        self._patience = patience

    def prepare(self) -> None:
        users = self.directory / "users.txt"
        users.write_text('"postgres" ""\n"patient" ""\n')  # without passwords
        text = _CONFIGURATION.format(
            host=LOOPBACK,
            port=self.port,
            target=self._target,
            users=users,
            mode=self.mode,
            connections=self._connections,
            patience=self._patience,
        )
        (self.directory / "pgbouncer.ini").write_text(text)

    def command(self) -> Sequence[str | Path]:
        directories = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
        program = shutil.which("pgbouncer", path=directories)
        return [program or missing("PgBouncer", "apt install pgbouncer"), "pgbouncer.ini"]

    def answers(self) -> bool:
        try:
            with psycopg.connect(
                host=LOOPBACK,
                port=self.port,
                user="postgres",
                dbname="pgbouncer",
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=5,
            ) as connection:
                connection.execute("SHOW VERSION")
        except psycopg.OperationalError:
            return False
        return True

    def before(self, url: str) -> str:
        """Return the URL of the same database by way of this pool."""
        return make_url(url).set(port=self.port).render_as_string(hide_password=False)
