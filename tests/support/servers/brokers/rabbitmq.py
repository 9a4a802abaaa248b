"""RabbitMQ: Debian's rabbitmq-server."""

import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kombu.connection import Connection

from outbox.worker.broker.queues import QUEUES
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, accepts, free_port
from tests.support.servers.server import Server

_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the wrapper in PATH changes the user


class PortMapper(Server):
    """Erlang's epmd, which RabbitMQ would otherwise start as a daemon that outlives it."""

    name: ClassVar[str] = "epmd"

    def __init__(self) -> None:
        self.port = free_port()

    def command(self) -> Sequence[str | Path]:
        binary = shutil.which("epmd") or missing("epmd", "apt install rabbitmq-server")
        return [binary, "-port", str(self.port), "-address", LOOPBACK]

    def answers(self) -> bool:
        return accepts(self.port)


class RabbitMQ(Broker):
    """A RabbitMQ node that shares nothing with another on the machine: name, cookie, ports, files.

    It knows the user guest with the password guest.
    """

    name: ClassVar[str] = "rabbitmq"
    patience: ClassVar[float] = 90.0

    def __init__(self) -> None:
        self.port = free_port()
        self._distribution_port = free_port()
        self.port_mapper = PortMapper()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}//"

    def prepare(self) -> None:
        if not _SERVER.exists():
            missing("RabbitMQ", "apt install rabbitmq-server")
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)
        for name in ("plugins", "config.conf", "environment"):
            (self.directory / name).touch()
        (self.directory / "plugins").write_text("[].")
        self.port_mapper.__enter__()

    def command(self) -> Sequence[str | Path]:
        return [_SERVER]

    def environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self.directory),
            "ERL_EPMD_PORT": str(self.port_mapper.port),
            "RABBITMQ_ALLOW_INPUT": "1",  # runs Erlang in the place of the shell script
            "RABBITMQ_NODENAME": f"outbox{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -start_epmd false"
            " +sbwt none +sbwtdcpu none +sbwtdio none"  # idle schedulers leave the cores alone
            " -kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self.directory / "logs"),
            "RABBITMQ_CONF_ENV_FILE": str(self.directory / "environment"),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "config.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
            "RABBITMQ_PID_FILE": str(self.directory / "pid"),
        }

    def answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(b"AMQP\x00\x00\x09\x01")
                return connection.recv(1) == b"\x01"  # the method frame Connection.Start
        except OSError:
            return False

    def empty(self) -> None:
        """Delete the queues: a consumer is told, and a publisher's next message goes nowhere."""
        with self._connected() as connection:
            for queue in QUEUES:
                connection.default_channel.queue_delete(queue.name)

    def waiting(self) -> int:
        with self._connected() as connection:
            return sum(_ready(connection, queue.name) for queue in QUEUES)

    def _connected(self) -> Any:
        connect: Any = Connection  # its types are not told
        return connect(self.url, connect_timeout=5)

    def _vanish(self) -> None:
        try:
            super()._vanish()
        finally:
            self.port_mapper.__exit__(None, None, None)


def _ready(connection: Any, queue: str) -> int:
    with connection.channel() as channel:  # of its own: where there is no queue, the broker ends it
        try:
            declared = channel.queue_declare(queue, passive=True)
        except connection.channel_errors:
            return 0
        return int(declared.message_count)
