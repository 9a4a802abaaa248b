"""MariaDB: Debian's mariadbd."""

import getpass
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pymysql
from sqlalchemy import make_url

from tests.support.servers.databases.lending import LendingServer, Watch
from tests.support.servers.databases.watched_mariadb import WatchedMariaDB
from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, free_port
from tests.support.servers.server import Fill


class MariaDB(LendingServer):
    """A MariaDB with its defaults, the collation included, and the network's root without password.

    `durable=False` turns off the flushes and keeps the data in memory: commits then survive the
    death of the server's process, but not of the machine.
    """

    name: ClassVar[str] = "mariadb"
    watch: ClassVar[type[Watch]] = WatchedMariaDB

    def __init__(self, *, durable: bool = True, options: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.durable = durable
        self._options = options

    def prepare(self) -> None:
        (self.directory / "temporary").mkdir()
        install = [_program("mariadb-install-db"), *self._common()]
        install += ["--auth-root-authentication-method=normal"]
        install += ["--skip-test-db", "--skip-name-resolve"]
        made = subprocess.run(install, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(f"mariadb-install-db failed:\n{made.stdout}{made.stderr}")

    def command(self) -> Sequence[str | Path]:
        return [
            _program("mariadbd"),
            *self._common(),
            f"--port={self.port}",
            f"--bind-address={LOOPBACK}",
            f"--socket={self.directory / 'socket'}",
            f"--pid-file={self.directory / 'pid'}",
            "--skip-name-resolve",
            "--userstat",  # counts the rows that are written to each table
            "--max-allowed-packet=128M",  # its default would not take our largest email
            *([] if self.durable else ["--innodb-flush-method=nosync"]),
            *self._options,
        ]

    def answers(self) -> bool:
        try:
            self._run("SELECT 1")
        except (pymysql.err.OperationalError, pymysql.err.InternalError):  # or no MariaDB answers
            return False
        return True

    def new_database(self, fill: Fill | None = None) -> str:
        """Return the SQLAlchemy URL of a fresh database, empty or filled by `fill`."""
        name = f"test_{uuid4().hex}"
        self._run(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        # Without ssl_disabled every connection reads the system's CAs, which costs 80 ms.
        query = "charset=utf8mb4&ssl_disabled=true"
        url = f"mariadb+pymysql://root@{LOOPBACK}:{self.port}/{name}?{query}"
        if fill is not None:
            fill(url)
        return url

    def drop_database(self, url: str) -> None:
        """Remove the database, also when somebody is still connected to it."""
        name = make_url(url).database
        connected = f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"
        for (connection,) in self._run(connected):
            with suppress(pymysql.err.OperationalError):  # gone meanwhile
                self._run(f"KILL {connection}")
        self._run(f"DROP DATABASE {name}")

    def _common(self) -> list[str]:
        return [
            "--no-defaults",
            f"--user={getpass.getuser()}",
            f"--datadir={self.data}",
            # One that starts clears away every temporary table in there, whosever it is.
            f"--tmpdir={self.directory / 'temporary'}",
        ]

    def _run(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        connection = pymysql.connect(
            host=LOOPBACK,
            port=self.port,
            user="root",
            autocommit=True,
            connect_timeout=5,
            ssl_disabled=True,
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


def _program(name: str) -> str:
    directories = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
    return shutil.which(name, path=directories) or missing("MariaDB", "apt install mariadb-server")
