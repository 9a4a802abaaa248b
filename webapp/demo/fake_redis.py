"""A Redis written in Python, for a machine that has no redis-server: the package fakeredis.

    python -m webapp.demo.fake_redis --port 0 --unixsocket .demo/redis.sock

It takes the few options of redis-server that the demo uses. Every client has a thread. It is slower
than Redis, and keeps everything in its own memory.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import socket
import threading
from typing import Any

from fakeredis import TcpFakeServer


class FakeRedis(TcpFakeServer):
    """fakeredis' server on a port of the loopback interface."""


class UnixFakeRedis(FakeRedis):
    """The same on a Unix socket. fakeredis tells clients apart by their addresses."""

    address_family = socket.AF_UNIX

    def __init__(self, path: str) -> None:
        self._numbers = itertools.count(1)
        super().__init__(path)  # type: ignore[arg-type]  # for this family it is an address

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a client, and give it an address of its own: a Unix socket's has none."""
        connection, _ = super().get_request()
        return connection, ("unix", next(self._numbers))


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--unixsocket")
    parser.add_argument("--unixsocketperm", type=lambda text: int(text, 8), default=0o700)
    options = parser.parse_args()
    if options.unixsocket:
        os.umask(0o777 & ~options.unixsocketperm)
        server: FakeRedis = UnixFakeRedis(options.unixsocket)
    else:
        server = FakeRedis((options.bind, options.port))
    # Not a handler that sets an event: it would wait for ever where it interrupts the wait itself.
    signals = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # for the threads, too
    threading.Thread(target=server.serve_forever, daemon=True).start()
    signal.sigwait(signals)
    os._exit(0)  # its clients' threads wait for their clients


if __name__ == "__main__":
    main()
