"""What is soaked: a database, Redis, an SMTP server, and hosts with worker, beat and web."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from sqlalchemy import make_url

from tests.servers.celery_process import CeleryProcess
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer
from tests.servers.server import Server
from tests.soak import clock
from tests.soak.app import CONFIG, create_app
from tests.soak.clock import Clock
from tests.soak.link import Link, Network
from tests.soak.namespace import Namespace
from tests.soak.plan import SERVERS
from tests.soak.smtp import SoakSmtp

_ROOT = Path(__file__).parents[2]
PROCESSES = 2
"""Pool processes of a worker."""

BEATS = 2
"""Hosts with a beat: the first ones."""

WINDOW = 20
"""The default, which is what counts for the bound."""


class HostProcess(CeleryProcess):
    """A worker or a beat on a host."""

    def __init__(self, role: Literal["worker", "beat"], host: Host, *options: str) -> None:
        super().__init__("tests.soak.app", role, *options, environment=host.environment())
        self._host = host

    def command(self) -> Sequence[str | Path]:
        return [*self._host.inside(), *super().command()]


class Web(Server):
    """The web process of a host, with its load."""

    name: ClassVar[str] = "web"

    def __init__(self, host: Host) -> None:
        self._host = host

    def command(self) -> Sequence[str | Path]:
        return [*self._host.inside(), sys.executable, "-m", "tests.soak.web"]

    def environment(self) -> Mapping[str, str]:
        return self._host.environment()

    def working_directory(self) -> Path:
        return _ROOT

    def answers(self) -> bool:
        return "ready" in self.printed()


@dataclass(kw_only=True)
class Host:
    """What a host is: its network, its clock, its way to each server, and its processes."""

    number: int
    namespace: Namespace | None
    clock: Clock | None
    config: dict[str, Any]
    links: dict[str, Link] = field(default_factory=dict)

    def inside(self) -> list[str]:
        """Return what to put before a command that is to run here."""
        return self.namespace.inside() if self.namespace else []

    def environment(self) -> dict[str, str]:
        """Return what a process here runs with."""
        shifted = self.clock.environment() if self.clock else {}
        return {"PYTHONUNBUFFERED": "1", CONFIG: json.dumps(self.config), **shifted}


class System:
    """All of it, as a context manager makes it: `running`."""

    def __init__(
        self, directory: Path, stack: ExitStack, *, hosts: int, rate: float, namespaces: bool
    ) -> None:
        self.directory = directory
        self.notes = directory / "smtp"
        self.told = [directory / f"told-{number}" for number in range(hosts)]
        self.postgres = stack.enter_context(Postgres(durable=False))
        self.redis = stack.enter_context(RedisServer())
        self.smtp = stack.enter_context(SoakSmtp(self.notes))
        self.url = self.postgres.new_database()
        self.slots = hosts * PROCESSES
        self.namespaces = namespaces
        self._library = clock.build(directory)
        self.clocks = self._library is not None
        network = stack.enter_context(Network())
        self.hosts = [self._host(number, network, stack) for number in range(hosts)]
        self.processes: dict[str, Server] = {}
        for host, told in zip(self.hosts, self.told, strict=True):
            place = f"{host.number + 1}"
            concurrency = f"--concurrency={PROCESSES}"
            self.processes[f"worker {place}"] = HostProcess("worker", host, concurrency)
            if host.number < BEATS:
                self.processes[f"beat {place}"] = HostProcess("beat", host)
            host.config["load"] = {"told": str(told), "mails_per_second": rate / hosts}
            self.processes[f"web {place}"] = Web(host)
        self.locks = {name: threading.RLock() for name in (*self.processes, *SERVERS)}
        self.died: Counter[str] = Counter()  # processes that ended though nobody touched them
        self._create_tables()
        self._start(stack)

    def libpq(self) -> str:
        """Return the database's address for who uses no SQLAlchemy."""
        name = make_url(self.url).database
        return f"host={LOOPBACK} port={self.postgres.port} user=postgres dbname={name}"

    def watch(self) -> None:
        """Start again what ended by itself, as a host's supervisor does; count it."""
        for name, process in self.processes.items():
            if self.locks[name].acquire(blocking=False):
                try:
                    if not process.running:
                        self.died[name] += 1
                        process.start()
                finally:
                    self.locks[name].release()

    def stop_load(self) -> None:
        """End the web processes, in order."""
        for name in [name for name in self.processes if name.startswith("web")]:
            with self.locks[name]:
                self.processes.pop(name).kill_9()

    def _host(self, number: int, network: Network, stack: ExitStack) -> Host:
        namespace = stack.enter_context(Namespace(number)) if self.namespaces else None
        shifted = (
            Clock(self._library, self.directory / f"clock-{number}") if self._library else None
        )
        address = namespace.address if namespace else LOOPBACK
        real = {
            "database": self.postgres.port,
            "broker": self.redis.port,
            "smtp": self.smtp.port,
        }
        ports = {name: free_port() for name in SERVERS}
        links = {name: network.link(address, ports[name], real[name]) for name in SERVERS}
        url = make_url(self.url).set(host=address, port=ports["database"])
        config = {
            "SECRET_KEY": "for this soak only",
            "SQLALCHEMY_DATABASE_URI": url.render_as_string(hide_password=False),
            "SQLALCHEMY_ENGINE_OPTIONS": {"connect_args": {"connect_timeout": 3}},
            "REDIS_URL": f"redis://{address}:{ports['broker']}/0",
            # One name: it is one server, and one breaker, over whichever link it is reached.
            "OUTBOX_SERVERS": [{"name": "smtp", "server": address, "port": ports["smtp"]}],
            "OUTBOX_SLOTS": self.slots,
            "OUTBOX_WINDOW": WINDOW,
            "OUTBOX_LEASE": 6.0,
            "OUTBOX_CONNECT_TIMEOUT": 3.0,
            "OUTBOX_COMMAND_TIMEOUT": 6.0,
            "OUTBOX_DOT_TIMEOUT": 8.0,
        }
        return Host(number=number, namespace=namespace, clock=shifted, config=config, links=links)

    def _create_tables(self) -> None:
        direct = {"SQLALCHEMY_DATABASE_URI": self.url, "OUTBOX_NUDGE": False}
        config = {k: v for k, v in self.hosts[0].config.items() if k != "load"} | direct
        app = create_app(config)
        with app.flask.app_context():
            app.db.create_all()
            app.db.engine.dispose()

    def _start(self, stack: ExitStack) -> None:
        """Start all processes at once; at the end nobody waits for them to finish their work."""
        processes = list(self.processes.values())
        with ThreadPoolExecutor(len(processes)) as pool:
            list(pool.map(stack.enter_context, processes))
        for process in processes:
            stack.callback(process.kill_9)


@contextmanager
def running(
    directory: Path, *, hosts: int, rate: float, namespaces: bool = True
) -> Iterator[System]:
    """Start everything; end everything, whatever happens."""
    os.environ.setdefault("PGCONNECT_TIMEOUT", "5")
    with ExitStack() as stack:
        allowed = namespaces and Namespace.allowed()
        yield System(directory, stack, hosts=hosts, rate=rate, namespaces=allowed)
