"""Another host: it tells whether a browser has connected to it, without asking for anything."""

from __future__ import annotations

import select
import socket


class Elsewhere:
    """A port that nobody serves; the system takes the connections."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def is_reached(self) -> bool:
        """Whether anybody has connected."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        """Let nobody connect any more."""
        self._socket.close()
