"""Redis: the one that the demo takes, by the same choices (`webapp.demo.redis_server`)."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from outbox.worker.broker.queues import QUEUES
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, free_port
from webapp.demo import redis_server

ROOT = Path(__file__).resolve().parents[4]


class RedisServer(Broker):
    """A Redis that keeps nothing on disk and evicts nothing from memory."""

    name: ClassVar[str] = "redis"

    def __init__(self) -> None:
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def command(self) -> Sequence[str | Path]:
        return _found().listening(port=self.port)

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(ROOT)}  # for the one that is a module of ours

    def answers(self) -> bool:
        return self.ask(b"PING") == b"+PONG\r\n"

    def flushall(self) -> None:
        """Forget everything, as `redis-cli FLUSHALL` does."""
        assert self.ask(b"FLUSHALL") == b"+OK\r\n"

    def empty(self) -> None:
        # A test may have set others. fakeredis has no settings, and refuses the commands.
        self.ask(b"CONFIG SET stop-writes-on-bgsave-error no")
        self.ask(b"CONFIG SET save ")  # the last word is empty: one that cannot save does not end
        self.flushall()
        self.ask(b"CONFIG SET maxmemory 0")
        self.ask(b"CONFIG SET maxmemory-policy noeviction")

    def waiting(self) -> int:
        replies = [self.ask(b"LLEN " + queue.name.encode()) for queue in QUEUES]
        return sum(int(reply.strip(b":\r\n")) for reply in replies)

    def ask(self, command: bytes) -> bytes:
        """Return the first bytes of the reply to a command; nothing when there is none in 5 s."""
        words = command.split(b" ")
        sent = b"*%d\r\n" % len(words)
        sent += b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=5) as connection:
                connection.sendall(sent)
                return connection.recv(100)
        except OSError:
            return b""


def _found() -> redis_server.RedisServer:
    return redis_server.find() or missing("Redis", "apt install redis-server")
