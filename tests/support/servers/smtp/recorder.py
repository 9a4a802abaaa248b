"""An SMTP server in a process of its own that stamps every email it accepts: for what is measured.

This file is both sides: imported it is the test's, executed it is the server. It takes thousands of
emails a second. An email is on record before its reply leaves, so a kill loses no accepted email.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.support.servers.own import OwnServer
from tests.support.servers.ports import LOOPBACK

_END = b"\r\n.\r\n"
_ADDRESS = re.compile(rb"<([^>]*)>")
_HELLO = b"250-recorder.test\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SIZE 67108864\r\n"


@dataclass(frozen=True, slots=True)
class Stamp:
    """An email that was accepted, for one recipient, at a moment of `time.monotonic`."""

    at: float
    recipient: str


class Recorder(OwnServer):
    """The stamps are on the machine's one monotonic clock: the test's own times compare.

    After `answers_for` emails it takes and records more, one a connection, and answers for none.
    """

    name: ClassVar[str] = "recorder"
    host = LOOPBACK

    def __init__(self, *, answers_for: int | None = None) -> None:
        super().__init__()
        self._answers_for = answers_for
        self._stamps: list[Stamp] = []
        self._read = 0  # octets of the file

    def stamps(self) -> Sequence[Stamp]:
        """Return what it has accepted, over all its starts, in the order of acceptance."""
        with self._file.open("rb") as file:
            file.seek(self._read)
            lines, _, _ = file.read().rpartition(b"\n")
        if lines:
            self._read += len(lines) + 1
            pairs = (line.split(" ", 1) for line in lines.decode().split("\n"))
            self._stamps += [Stamp(float(at), recipient) for at, recipient in pairs]
        return self._stamps

    def at(self, recipient: str) -> float:
        """Return when it accepted the first email for this recipient; 0 before."""
        stamps = self.stamps()
        return next((stamp.at for stamp in stamps if stamp.recipient == recipient), 0.0)

    def copies(self) -> Counter[str]:
        """Return how many emails each recipient got."""
        return Counter(stamp.recipient for stamp in self.stamps())

    def prepare(self) -> None:
        self._file.touch()

    def arguments(self) -> Sequence[object]:
        return (self._file, "" if self._answers_for is None else self._answers_for)

    @property
    def _file(self) -> Path:
        return self.data / "stamps"


class _Book:
    """Where the stamps are written, and for how many emails more there is an answer."""

    def __init__(self, path: str, most: float) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._left = most

    def enter(self, recipients: Sequence[str]) -> bool:
        """Stamp an email; return whether to answer for it."""
        now = time.monotonic()
        os.write(self._file, "".join(f"{now:.6f} {to}\n" for to in recipients).encode())
        self._left -= 1
        return self._left >= 0


class _Session(asyncio.Protocol):
    """One connection. Commands may come in one packet, and the next email's after a final dot."""

    def __init__(self, book: _Book) -> None:
        self._book = book
        self._silent = False
        self._received = bytearray()
        self._content = False
        self._recipients: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(b"220 recorder.test ESMTP\r\n")

    def data_received(self, data: bytes) -> None:
        searched = max(0, len(self._received) - len(_END)) if self._content else 0
        self._received += data
        replies = bytearray()
        while not self._silent:
            end = _END if self._content else b"\r\n"
            found = self._received.find(end, searched)
            searched = 0
            if found < 0:
                break
            part = bytes(self._received[:found])
            del self._received[: found + len(end)]
            replies += self._accept() if self._content else self._obey(part)
        if replies:
            self._transport.write(bytes(replies))

    def _accept(self) -> bytes:
        self._silent = not self._book.enter(self._recipients)
        self._content, self._recipients = False, []
        return b"" if self._silent else b"250 2.0.0 OK\r\n"

    def _obey(self, line: bytes) -> bytes:
        match line[:4].upper():
            case b"EHLO":
                return _HELLO
            case b"RCPT":
                found = _ADDRESS.search(line)
                self._recipients.append(found[1].decode() if found else "")
            case b"DATA":
                self._content = True
                return b"354 go on\r\n"
            case b"RSET" | b"MAIL":
                self._recipients = []
            case b"QUIT":
                self._transport.write(b"221 bye\r\n")
                self._transport.close()
                return b""
        return b"250 OK\r\n"


async def _serve(port: int, book: _Book) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Session(book), LOOPBACK, port, backlog=128)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), _Book(sys.argv[2], float(sys.argv[3] or "inf"))))
