"""A server on a free port that serves one connection after the other, in a thread."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Self


class Listener(ABC):
    """Listens from its making on, and serves as a context manager."""

    def __init__(self, name: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @abstractmethod
    def serve(self, sock: socket.socket) -> None:
        """Serve one connection; an error of the socket ends it."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock, suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.serve(sock)
