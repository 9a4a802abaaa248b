"""One SMTP connection as a server of the tests sees it."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field


class HangupError(Exception):
    """The connection is over."""


@dataclass
class Dialogue:
    """One connection as the server sees it."""

    sock: socket.socket
    stopped: threading.Event
    lines: list[str] = field(default_factory=list)  # the command lines as they came
    bodies: list[bytes] = field(default_factory=list)  # contents with their final dot
    torn: bytes = b""  # content octets that came without a final dot
    data: bytes = b""
    over: threading.Event = field(default_factory=threading.Event)

    def say(self, reply: str) -> None:
        """Send a reply; each line of it gets its CRLF."""
        self.sock.sendall("".join(f"{line}\r\n" for line in reply.split("\n")).encode())

    def line(self) -> str:
        """Read one command line."""
        while b"\r\n" not in self.data:
            self.receive()
        line, self.data = self.data.split(b"\r\n", 1)
        self.lines.append(line.decode())
        return self.lines[-1]

    def content(self) -> None:
        """Read an email's content up to its final dot."""
        self.data, seen = b"\r\n" + self.data, 0
        while (end := self.data.find(b"\r\n.\r\n", seen)) < 0:
            seen = max(0, len(self.data) - 4)
            try:
                self.receive()
            except (HangupError, OSError):
                self.torn, self.data = self.data[2:], b""
                raise
        self.bodies.append(self.data[2 : end + 5])
        self.data = self.data[end + 5 :]

    def receive(self) -> None:
        """Wait for more octets."""
        data = self.sock.recv(65536)
        if not data:
            raise HangupError
        self.data += data
