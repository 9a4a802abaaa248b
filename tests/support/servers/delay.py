"""A TCP proxy in a process of its own that puts a server further away, and takes no throughput.

This file is both sides: imported it is the test's, executed it is the proxy.
"""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import signal
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from tests.support.servers.own import OwnServer
from tests.support.servers.ports import LOOPBACK
from tests.support.waiting import wait_until

_HANDSHAKE = 3
"""SYN, SYN-ACK, ACK: so many times one way until the server knows of a connection."""

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
        """Add nothing from now on, on open connections too; what is under way arrives at once."""
        os.kill(self.pid, signal.SIGUSR1)
        wait_until(lambda: _NEAR in self.printed(), self.patience, "the proxy to come near")


class _Way:
    """The way to the server and back, as long for all connections: what leaves first arrives first.

    One timer for all: with one for each connection a hundred of them kept the loop from its pace.
    """

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.seconds = seconds
        self._is_gone = asyncio.Event()
        self._line = deque[tuple[float, _Side, bytes | None]]()
        self._timer: asyncio.TimerHandle | None = None

    def vanish(self) -> None:
        """Take no time from now on, for what is under way neither: others queue behind it."""
        self.seconds = 0.0
        self._is_gone.set()
        self._line = deque((0.0, to, data) for _, to, data in self._line)
        if self._timer is not None:
            self._timer.cancel()
        self._arrive()
        print(_NEAR, flush=True)

    async def pass_by(self, times: int) -> None:
        """Wait as long as it takes to go this way so often."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_gone.wait(), times * self.seconds)

    def send(self, to: _Side, data: bytes | None) -> None:
        """Have the data arrive there later; None is the end."""
        self._line.append((self._loop.time() + self.seconds, to, data))
        self._plan()

    def _plan(self) -> None:
        if self._timer is None and self._line:
            self._timer = self._loop.call_at(self._line[0][0], self._arrive)

    def _arrive(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._line and self._line[0][0] <= now:
            _, to, data = self._line.popleft()
            to.put(data)
        self._plan()


class _Side(asyncio.Protocol):
    """One end of a connection: what comes in here goes out at the other end, later, in order."""

    def __init__(self, way: _Way) -> None:
        self._way = way
        self._transport: asyncio.Transport | None = None
        self.other: _Side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._way.send(self.other, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._way.send(self.other, None)

    def put(self, data: bytes | None) -> None:
        """Write what has arrived; None closes."""
        if self._transport is not None:
            if data is None:
                self._transport.close()
            else:
                self._transport.write(data)


class _Near(_Side):
    """The client's end: it opens the far one after a handshake's time."""

    def __init__(self, way: _Way, target: int) -> None:
        super().__init__(way)
        self._target = target
        self.other = _Side(way)
        self.other.other = self
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        # Nothing may arrive before the far end is open. Python 3.11 begins to read after this call.
        asyncio.get_running_loop().call_soon(transport.pause_reading)
        self._opening = asyncio.create_task(self._connect(transport))

    async def _connect(self, transport: asyncio.Transport) -> None:
        await self._way.pass_by(_HANDSHAKE)
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self.other, LOOPBACK, self._target)
        except OSError:
            transport.abort()
        else:
            transport.resume_reading()


class _Exact(selectors.EpollSelector):
    """Waits as long as it is told. Alone, epoll waits for whole milliseconds, rounded up."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


async def _serve(port: int, target: int, seconds: float) -> None:
    loop, way = asyncio.get_running_loop(), _Way(seconds)
    loop.add_signal_handler(signal.SIGUSR1, way.vanish)
    server = await loop.create_server(lambda: _Near(way, target), LOOPBACK, port, backlog=128)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Exact())) as runner:
        runner.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
