"""The network between one host and the servers: TCP proxies that can cut, and fall silent."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends RST, and what was still to be sent is thrown away."""


class Network:
    """The thread on which all links run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._links: list[Link] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links:
            link.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def link(self, host: str, port: int, target: int) -> Link:
        """Open a link from this address to a port of loopback."""
        link = Link(target, self._soon)
        self._links.append(link)
        self._do(link.open(host, port))
        return link

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _soon(self, work: Callable[[], None]) -> None:
        async def run() -> None:
            work()

        self._do(run())


class Link:
    """One host's way to one server. There is no flow control: what passes here is small."""

    def __init__(self, target: int, soon: Callable[[Callable[[], None]], None]) -> None:
        self.target = target
        self.broken = False
        self.silent = False
        self.ends: set[_End] = set()
        self._soon = soon
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Near(self), host, port, backlog=256)

    def close(self) -> None:
        """Reset every connection and listen no more."""
        self._soon(self._close)

    def cut(self) -> None:
        """Reset every connection, and every new one, until the link is mended."""
        self._soon(self._cut)

    def fall_silent(self) -> None:
        """Let nothing through until the link is mended; nobody is told."""
        self._soon(self._fall_silent)

    def mend(self) -> None:
        """Let everything through: also what has waited since the link fell silent."""
        self._soon(self._mend)

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._cut()

    def _cut(self) -> None:
        self.broken = True
        for end in tuple(self.ends):
            end.reset()

    def _fall_silent(self) -> None:
        self.silent = True
        for end in self.ends:
            end.listen(not self.silent)

    def _mend(self) -> None:
        self.broken = self.silent = False
        for end in self.ends:
            end.listen(not self.silent)


class _End(asyncio.Protocol):
    """One end of a connection: what comes in here goes out at the other end."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._link.ends.add(self)
        if self._link.broken:
            self.reset()
        else:  # soon: in Python 3.11.2, for one, a transport that is paused here reads on
            asyncio.get_running_loop().call_soon(lambda: self.listen(not self._link.silent))

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._link.ends.discard(self)
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()

    def listen(self, on: bool) -> None:
        """Read from this end, or leave what comes in the kernel."""
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.resume_reading if on else self._transport.pause_reading)()

    def reset(self) -> None:
        """Break this end at once."""
        if self._transport is not None and not self._transport.is_closing():
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()


class _Near(_End):
    """The host's end: it opens the far one, once the link is not silent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._opening: asyncio.Task[None] | None = None
        super().connection_made(transport)

    def listen(self, on: bool) -> None:
        if self.other is not None:
            super().listen(on)
            return
        super().listen(False)  # nothing may arrive before the far end is open
        if on and self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        far = _End(self._link)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: far, "127.0.0.1", self._link.target
            )
        except OSError:
            self.reset()
            return
        if self._transport is None or self._transport.is_closing():
            far.reset()
            return
        self.other, far.other = far, self
        self.listen(not self._link.silent)
