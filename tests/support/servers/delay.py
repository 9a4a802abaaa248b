"""A TCP proxy in a process of its own that puts a server further away, and takes no throughput.

This file is both sides: imported it is the test's, executed it is the proxy.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tests.support.servers.own import OwnServer
from tests.support.servers.ports import LOOPBACK
from tests.support.waiting import wait_until

_HANDSHAKE = 3
"""SYN, SYN-ACK, ACK: so many times one way until the server knows of a connection."""

_ROUNDING = 0.0005
"""The loop waits whole milliseconds, rounded up: half of one too long on average, in seconds."""

_NEAR = "near"


class Delay(OwnServer):
    """Adds `seconds` each way between its own port and that of a server on loopback."""

    name: ClassVar[str] = "delay"
    host = LOOPBACK

    def __init__(self, port: int, seconds: float) -> None:
        super().__init__()
        self._target = port
        self._seconds = seconds

    def arguments(self) -> Sequence[object]:
        return (self._target, self._seconds)

    def come_near(self) -> None:
        """Add nothing from now on, on open connections too."""
        os.kill(self.pid, signal.SIGUSR1)
        wait_until(lambda: _NEAR in self.printed(), self.patience, "the proxy to come near")


@dataclass
class _Distance:
    """How far the server is, the same for all connections."""

    seconds: float

    def vanish(self) -> None:
        self.seconds = 0.0
        print(_NEAR, flush=True)


class _Side(asyncio.Protocol):
    """One end of a connection: what comes in here goes out at the other end, later, in order."""

    def __init__(self, distance: _Distance) -> None:
        self._loop = asyncio.get_running_loop()
        self._distance = distance
        self._line = deque[tuple[float, bytes | None]]()  # on its way: None is the end
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.other: _Side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._send(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._send(None)

    def _send(self, data: bytes | None) -> None:
        self._line.append((self._loop.time() + self._distance.seconds, data))
        self._plan()

    def _plan(self) -> None:
        if self._timer is None and self._line:
            self._timer = self._loop.call_at(self._line[0][0] - _ROUNDING, self._arrive)

    def _arrive(self) -> None:
        self._timer = None
        while self._line and self._line[0][0] - _ROUNDING <= self._loop.time():
            self.other.put(self._line.popleft()[1])
        self._plan()

    def put(self, data: bytes | None) -> None:
        """Write what has arrived; None closes."""
        if self._transport is not None:
            if data is None:
                self._transport.close()
            else:
                self._transport.write(data)


class _Near(_Side):
    """The client's end: it opens the far one after a handshake's time."""

    def __init__(self, distance: _Distance, target: int) -> None:
        super().__init__(distance)
        self._target = target
        self.other = _Side(distance)
        self.other.other = self
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # nothing may arrive before the far end is open
        self._loop.call_later(_HANDSHAKE * self._distance.seconds, self._open, transport)

    def _open(self, transport: asyncio.Transport) -> None:
        self._opening = self._loop.create_task(self._connect(transport))

    async def _connect(self, transport: asyncio.Transport) -> None:
        try:
            await self._loop.create_connection(lambda: self.other, LOOPBACK, self._target)
        except OSError:
            transport.abort()
        else:
            transport.resume_reading()


async def _serve(port: int, target: int, seconds: float) -> None:
    loop, distance = asyncio.get_running_loop(), _Distance(seconds)
    loop.add_signal_handler(signal.SIGUSR1, distance.vanish)
    server = await loop.create_server(lambda: _Near(distance, target), LOOPBACK, port, backlog=128)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
