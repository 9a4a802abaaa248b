"""What is soaked: a database, Redis, an SMTP server, and hosts with worker, beat and web."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import psycopg
from sqlalchemy import make_url

from tests.soak.classes import LIFETIME, STEPS
from tests.soak.hosts import clock, hoard
from tests.soak.hosts.app import CONFIG, create_app
from tests.soak.hosts.clock import Clock
from tests.soak.hosts.link import Link, Network
from tests.soak.hosts.namespace import Namespace
from tests.soak.hosts.smtp import SoakSmtp
from tests.soak.plan import SERVERS
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.ports import LOOPBACK, free_port
from tests.support.servers.server import Server

_ROOT = Path(__file__).parents[3]
PROCESSES = 2
"""Pool processes of a worker."""

THREADS = 12
"""Threads of the worker that has too few connections to the database."""

STARVED = {"pool_size": 1, "max_overflow": 1, "pool_timeout": 0.3}
"""So few, and so many seconds that a thread waits for one."""

ALL_CONNECTIONS = 2
"""What its pool may open in all."""

BEATS = 2
"""Hosts with a beat: the first ones."""

TRICKLE = 3.0
"""Plain orders a second when the load is over."""

HOPELESS = 0.6
"""The part of the load's time in which emails are written that the server never takes: they are
tried on for the rest of it, and worn out soon afterwards."""

WINDOW = 20
"""The default, which is what counts for the bound."""


class HostProcess(CeleryProcess):
    """A worker or a beat on a host, some of whose settings may be its own."""

    def __init__(
        self, role: Literal["worker", "beat"], host: Host, *options: str, **settings: Any
    ) -> None:
        environment = host.environment(**settings)
        super().__init__("tests.soak.hosts.app", role, *options, environment=environment)
        self._host = host

    def command(self) -> Sequence[str | Path]:
        return [*self._host.inside(), *super().command()]


class Web(Server):
    """The web process of a host, with its load."""

    name: ClassVar[str] = "web"

    def __init__(self, host: Host) -> None:
        self._host = host

    def command(self) -> Sequence[str | Path]:
        return [*self._host.inside(), sys.executable, "-m", "tests.soak.hosts.web"]

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

    def environment(self, **settings: Any) -> dict[str, str]:
        """Return what a process here runs with."""
        shifted = self.clock.environment() if self.clock else {}
        config = json.dumps({**self.config, **settings})
        return {"PYTHONUNBUFFERED": "1", CONFIG: config, **shifted}


class System:
    """All of it, as a context manager makes it: `running`."""

    def __init__(
        self,
        directory: Path,
        stack: ExitStack,
        *,
        hosts: int,
        rate: float,
        seconds: float,
        namespaces: bool,
    ) -> None:
        self.directory = directory
        self.notes = directory / "smtp"
        self.told = [directory / f"told-{number}" for number in range(hosts)]
        options = ("-c", "log_line_prefix=%m [%p] %e ")  # with the SQLSTATE
        self.postgres = stack.enter_context(Postgres(durable=False, options=options))
        self.redis = stack.enter_context(RedisServer())
        self.smtp = stack.enter_context(SoakSmtp(self.notes))
        self.url = self.postgres.new_database()
        self.workers = {f"worker {number + 1}": PROCESSES for number in range(hosts)}
        self.starved = f"worker {hosts + 1}"
        self.workers[self.starved] = THREADS
        self.slots = sum(self.workers.values())
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
            host.config["load"] = {
                "told": str(told),
                "mails_per_second": rate / hosts,
                "hopeless_until": time.monotonic() + HOPELESS * seconds,
            }
            self.processes[f"web {place}"] = Web(host)
        self.processes[self.starved] = self._starved_worker(self.hosts[-1])
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

    @contextmanager
    def trickle(self) -> Iterator[None]:
        """Have a plain order placed now and then.

        Where nothing is left but what a server halts, nobody can tell that from a server that halts
        everything, and an outage wears no email out.
        """
        host, name = self.hosts[0], "web 1"
        host.config["load"] = {
            "told": str(self.told[0]), "mails_per_second": TRICKLE, "is_plain": True,
        }  # fmt: skip
        with Web(host) as web:
            self.processes[name] = web
            try:
                yield
            finally:
                with self.locks[name]:
                    self.processes.pop(name).kill_9()

    def slots_of(self, target: str) -> int:
        """Return how many batches are sent at once by this worker, or by the workers of a host."""
        if target in self.workers:
            return self.workers[target]
        is_last = target == f"host {len(self.hosts)}"
        return PROCESSES + (self.workers[self.starved] if is_last else 0)

    def worker_logs(self) -> list[Path]:
        """Return the logs of all workers."""
        return [self.processes[name].log for name in self.workers]

    @staticmethod
    def _starved_worker(host: Host) -> HostProcess:
        """Return a worker of threads that have too few connections, and at times none."""
        options = {**host.config["SQLALCHEMY_ENGINE_OPTIONS"], **STARVED}
        settings = {"SQLALCHEMY_ENGINE_OPTIONS": options, hoard.CONNECTIONS: ALL_CONNECTIONS}
        pool = ("--pool=threads", f"--concurrency={THREADS}")
        return HostProcess("worker", host, *pool, **settings)

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
            # What is refused for good is to end soon. What is refused for some time is not to end
            # by it: the steps are so short that its lifetime has room for many tries.
            "OUTBOX_LIFETIME": LIFETIME,
            "OUTBOX_BACKOFF": list(STEPS),
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


def make_read_only(database: str, *, on: bool) -> None:
    """Have a server refuse each write with SQLSTATE 25006, or take it again.

    Open sessions too: each reads the configuration again before its next command. A transaction
    that has begun by then goes on as it was.
    """
    change = "SET default_transaction_read_only = on" if on else "RESET ALL"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM {change}".encode())
        connection.execute("SELECT pg_reload_conf()")


@contextmanager
def running(
    directory: Path, *, hosts: int, rate: float, seconds: float, namespaces: bool = True
) -> Iterator[System]:
    """Start everything; end everything, whatever happens."""
    os.environ.setdefault("PGCONNECT_TIMEOUT", "5")
    with ExitStack() as stack:
        allowed = namespaces and Namespace.allowed()
        yield System(directory, stack, hosts=hosts, rate=rate, seconds=seconds, namespaces=allowed)
