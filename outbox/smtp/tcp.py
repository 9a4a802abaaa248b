"""A TCP connection to a host: to the first of its addresses that answers."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds of rest until the kernel asks the other host, seconds between two such questions, and
how many go unanswered until the connection is gone. A firewall forgets no connection on which it
sees them, neither a kept one nor one that waits for the reply to a content."""


def connect(host: str, port: int, timeout: float, clock: Callable[[], float]) -> socket.socket:
    """Connect to the first address that answers, within `timeout` seconds for all of them.

    They begin when the addresses are known: the resolver has its own time-outs.

    Each address gets an equal share of what is left. Else one that drops what comes, as over an
    IPv6 that leads nowhere, would use up the time, and no other would ever be tried.

    Raises OSError: the last one that says something of the server.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    deadline = clock() + timeout
    error: OSError | None = None
    for untried, (family, kind, protocol, _, address) in zip(
        range(len(found), 0, -1), found, strict=True
    ):
        remaining = deadline - clock()
        if remaining <= 0:
            break
        try:
            return _connected(socket.socket(family, kind, protocol), address, remaining / untried)
        except OSError as failure:
            # A host without IPv6 may find IPv6 addresses all the same, but has no socket for one.
            if error is None or failure.errno != errno.EAFNOSUPPORT:
                error = failure
    raise error or TimeoutError("no address answered in time")


def _connected(
    sock: socket.socket, address: tuple[str | int | bytes, ...], timeout: float
) -> socket.socket:
    """Return the socket connected, or close it and raise."""
    try:
        sock.settimeout(timeout)
        sock.connect(address)
        # The last block of a large email must not wait for an acknowledgement (Nagle).
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # Linux has all three; elsewhere the system's own times hold
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
