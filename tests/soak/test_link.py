"""A link passes everything on, until it is cut or falls silent; and again once it is mended."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.soak.hosts.link import Link, Network
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.ports import LOOPBACK, free_port

PONG = b"+PONG\r\n"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def link(redis: RedisServer, port: int) -> Iterator[Link]:
    with Network() as network:
        yield network.link(LOOPBACK, port, redis.port)


def _connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=10)


def _ping(connection: socket.socket) -> bytes:
    connection.sendall(b"*1\r\n$4\r\nPING\r\n")
    return connection.recv(100)


def test_what_is_cut_is_reset_and_so_is_who_connects_until_it_is_mended(
    link: Link, port: int
) -> None:
    with _connect(port) as old:
        assert _ping(old) == PONG
        link.cut()
        with pytest.raises(ConnectionError):
            _ping(old)
    # The reset may come as early as in `connect`.
    with pytest.raises(ConnectionError), _connect(port) as new:
        new.recv(1)
    link.mend()
    with _connect(port) as new:
        assert _ping(new) == PONG


def test_what_is_silent_answers_nobody_and_everybody_once_it_is_mended(
    link: Link, port: int
) -> None:
    with _connect(port) as old:
        assert _ping(old) == PONG
        link.fall_silent()
        with _connect(port) as new:
            for connection in (old, new):
                connection.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    _ping(connection)
            link.mend()
            for connection in (old, new):
                connection.settimeout(10)
                assert connection.recv(100) == PONG
