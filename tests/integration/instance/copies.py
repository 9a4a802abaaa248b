"""Copies of databases, made as people make them: by a dump, or of a stopped server's files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Literal

import sqlalchemy as sa

from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.missing import missing


class PhysicalCopy(Postgres):
    """A PostgreSQL on the files of another one, which must be stopped.

    With the `signal` "recovery" it goes through archive recovery, as after a restore to a point in
    time, and begins a new timeline. With "standby" it is a standby until it is promoted.
    """

    def __init__(
        self, original: Postgres, *, signal: Literal["recovery", "standby"] | None = None
    ) -> None:
        recovery = ("-c", "restore_command=false") if signal else ()
        super().__init__(durable=False, options=recovery)
        self._original, self._signal = original, signal

    def prepare(self) -> None:
        self._binaries = self._original.binaries
        shutil.copytree(self._original.data, self.data, dirs_exist_ok=True)
        if self._signal:
            (self.data / f"{self._signal}.signal").touch()
        for path in (self.data, *self.data.rglob("*")):
            if self.owner is not None:
                shutil.chown(path, self.owner)

    def url(self, of: str) -> str:
        """Return the URL of the copy of the database at this URL."""
        return sa.make_url(of).set(port=self.port).render_as_string(hide_password=False)


def copy_postgresql(server: Postgres, source: str, target: str) -> None:
    """Dump a database with pg_dump, and load the dump into an empty one."""
    dump = _run([server.binaries / "pg_dump", _plain(source)])
    _run([server.binaries / "psql", "--quiet", "-v", "ON_ERROR_STOP=1", _plain(target)], dump)


def copy_mariadb(source: str, target: str) -> None:
    """Dump a database with mariadb-dump, and load the dump into an empty one."""
    dump = _run([_program("mariadb-dump"), *_words(source), "--single-transaction"])
    _run([_program("mariadb"), *_words(target)], dump)


def _plain(url: str) -> str:
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _words(url: str) -> list[str]:
    found = sa.make_url(url)
    return [
        "--no-defaults",
        f"--host={found.host}",
        f"--port={found.port}",
        f"--user={found.username}",
        str(found.database),
    ]


def _program(name: str) -> str:
    return shutil.which(name) or missing("MariaDB", "apt install mariadb-client")


def _run(command: list[str | Path], given: bytes = b"") -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout
