"""Whether a fault was met is counted, and a count of nothing is possible."""

from __future__ import annotations

import socket
from pathlib import Path

import psycopg

from tests.soak.hosts.system import make_read_only
from tests.soak.met import READ_ONLY, Logs, waiting
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.ports import LOOPBACK
from tests.support.waiting import wait_until


def test_a_text_is_counted_from_the_moment_on_or_from_the_beginning(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("met\n")
    since = Logs([old, new], "met")
    assert (since.count(), Logs([old, new], "met", whole=True).count()) == (0, 1)
    for file in (old, new):
        with file.open("a") as log:
            log.write("met and met\nor not\n")
    assert (since.count(), Logs([old, new], "met", whole=True).count()) == (4, 5)
    assert (since.count(before="not"), since.count(before="more")) == (4, 0)
    assert Logs([old], "not", whole=True).count(before="met") == 0


def test_who_waits_for_a_server_that_stands_still_is_counted() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert waiting(port) == 0
        with socket.create_connection((LOOPBACK, port)) as client:
            wait_until(lambda: waiting(port) == 1, 10, "the connection that nobody accepts")
            accepted, _ = server.accept()
            with accepted:
                assert waiting(port) == 0
                client.sendall(b"SELECT 1")
                wait_until(lambda: waiting(port) == 1, 10, "the statement that nobody reads")
                accepted.recv(100)
                assert waiting(port) == 0


def test_a_read_only_database_refuses_writes_in_open_sessions_and_in_new_ones(
    postgres: Postgres,
) -> None:
    address = f"host={LOOPBACK} port={postgres.port} user=postgres dbname=postgres"

    def refuses(connection: psycopg.Connection) -> bool:
        try:
            connection.execute("COMMENT ON DATABASE postgres IS NULL")
        except psycopg.Error as error:
            return error.sqlstate == READ_ONLY
        return False

    with psycopg.connect(address, autocommit=True) as session:
        assert not refuses(session)
        make_read_only(address, on=True)
        try:
            wait_until(lambda: refuses(session), 10, "the open session to be refused")
            with psycopg.connect(address, autocommit=True) as new:
                wait_until(lambda: refuses(new), 10, "a new session to be refused")
        finally:
            make_read_only(address, on=False)
        wait_until(lambda: not refuses(session), 10, "the open session to write again")
