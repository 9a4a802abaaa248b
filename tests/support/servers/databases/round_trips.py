"""A TCP proxy that counts round trips: how often a client asks and then waits for its server.

What a driver sends on its own behalf (BEGIN, COMMIT, PREPARE, the log-in) is counted like any
statement, and what it sends together in one go is one.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import suppress
from typing import Self

from tests.support.servers.ports import LOOPBACK, free_port

_PIECE = 1 << 16


class RoundTrips:
    """Stands before the server on `target`; `count` grows while clients use `port`."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.count = 0
        self._target = target
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                proxy.relay(self.request)

        self._server = socketserver.ThreadingTCPServer((LOOPBACK, self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.socket.close()  # not `server_close`: it would wait for open connections

    def relay(self, client: socket.socket) -> None:
        """Carry one connection to its end."""
        answered = threading.Event()  # the server has spoken since the client's last word
        answered.set()
        with client, socket.create_connection((LOOPBACK, self._target)) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=_carry, args=(server, client, answered), daemon=True)
            back.start()
            with suppress(OSError):
                while data := client.recv(_PIECE):
                    if answered.is_set():
                        answered.clear()
                        with self._lock:
                            self.count += 1
                    server.sendall(data)
                server.shutdown(socket.SHUT_WR)
            back.join()


def _carry(server: socket.socket, client: socket.socket, answered: threading.Event) -> None:
    with suppress(OSError):
        while data := server.recv(_PIECE):
            answered.set()  # before the client can see it, and ask again
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)
