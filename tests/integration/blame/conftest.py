"""Time without waiting: connections go by the simulation's clock.

And where a server says that it is silent for long, they believe it.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from outbox.domain.config.servers import ServerSettings
from outbox.domain.delivery.reply_table import Event
from outbox.smtp import body, session
from outbox.smtp.connection import Connection
from outbox.smtp.reply_reader import NoReply, ReplyReader
from outbox.worker.process import connections
from tests.integration.blame.server import PATIENCE_ENDS
from tests.integration.blame.simulation import HOST


class _Reader(ReplyReader):
    """Finds that a reply's time is over where the mark stands in its place."""

    __slots__ = ("_is_over",)

    def _receive(self, deadline: float) -> bytes:
        octets = b"" if getattr(self, "_is_over", False) else super()._receive(deadline)
        self._is_over = not octets or octets.endswith(PATIENCE_ENDS)
        if octets := octets.removesuffix(PATIENCE_ENDS):
            return octets
        raise NoReply(Event.TIMEOUT, "no whole reply within its deadline")


def _wait_writable(sock: socket.socket, seconds: float, *more: object) -> None:
    """Wait as `outbox.smtp.body` does, but no more where the mark came and nothing can be sent."""
    ready = select.poll()
    ready.register(sock, select.POLLOUT | select.POLLIN)
    [(_, events)] = ready.poll(seconds * 1000) or [(0, 0)]
    if not events & select.POLLOUT and (
        not events or sock.recv(1, socket.MSG_PEEK) == PATIENCE_ENDS
    ):
        raise TimeoutError("the server takes no more octets")


def _on_the_hosts_clock(server: ServerSettings, **_: object) -> Connection:
    return Connection(server, clock=HOST.now)


@pytest.fixture(autouse=True)
def _time_is_simulated() -> Iterator[None]:
    # Not the fixture `monkeypatch`: whoever uses that builds all statements anew.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "Connection", _on_the_hosts_clock)
        patch.setattr(session, "ReplyReader", _Reader)
        patch.setattr(body, "_wait_writable", _wait_writable)
        yield
