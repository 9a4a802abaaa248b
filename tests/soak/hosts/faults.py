"""How each kind of fault is done to the system, and undone."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import psycopg

from tests.soak.classes import for_some_time
from tests.soak.hosts.smtp import SoakSmtp
from tests.soak.hosts.system import System, make_read_only
from tests.soak.met import READ_ONLY, Logs, waiting
from tests.soak.plan import TRAITS, Fault
from tests.support.servers import family
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.server import Server

_THREADS = 12
_PATIENCE, _LOOK = 30.0, 0.1
"""Seconds that a fault lasts longer because nobody has met it, and from one look to the next."""


@dataclass
class Faults:
    """Plays a plan against a system; each fault in a thread, one at a time on each target."""

    system: System
    over: threading.Event  # set: undo everything now
    played: list[Fault] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)  # kind -> how often somebody met it
    last: float = 0.0  # when the last one was undone, on the monotonic clock

    def play(self, plan: Sequence[Fault], tell: Callable[[str], None]) -> None:
        """Play all; return when the last one is undone. What fails is raised."""
        began = time.monotonic()
        under_way: list[Future[None]] = []
        with ThreadPoolExecutor(_THREADS) as pool:
            try:
                for fault in plan:
                    while (left := began + fault.at - time.monotonic()) > 0:
                        self.over.wait(min(1.0, left))
                        self.system.watch()
                    tell(str(fault))
                    under_way.append(pool.submit(self._play, fault))
                    for future in under_way:
                        if future.done():
                            future.result()
            except BaseException:
                self.over.set()  # the others need not last
                raise
        for future in under_way:
            future.result()

    def _play(self, fault: Fault) -> None:
        with self.system.locks.get(fault.target, threading.RLock()):
            self.played.append(fault)
            PLAYS[fault.kind](self, fault)
            self.last = time.monotonic()

    def process(self, fault: Fault) -> Server:
        """Return the process that the fault is about."""
        return self.system.processes[fault.target]

    def wait_until_met(self, fault: Fault, count: Callable[[], int]) -> None:
        """Let the fault last, and on until somebody has met it; note how many did."""
        self.over.wait(fault.seconds)
        deadline = time.monotonic() + _PATIENCE
        while not (met := count()) and time.monotonic() < deadline and not self.over.is_set():
            self.over.wait(_LOOK)
        self.met[fault.kind] += met

    def wait(self, fault: Fault, then: Callable[[], object] = lambda: None) -> None:
        """Let the fault last; `then` ends it, whatever happens meanwhile."""
        try:
            self.over.wait(fault.seconds)
        finally:
            then()


def _kill(faults: Faults, fault: Fault) -> None:
    process = faults.process(fault)
    process.kill_9()
    faults.wait(fault)
    process.start()


def _kill_child(faults: Faults, fault: Fault) -> None:
    process = faults.process(fault)
    children = [member for member in family.family(process.pid) if member.pid != process.pid]
    if children:
        random.choice(children).send(signal.SIGKILL)


def _stop_and_start(faults: Faults, fault: Fault) -> None:
    process = faults.process(fault)
    try:
        process.stop(20)
    except TimeoutError:  # what a supervisor does to who does not obey
        process.kill_9()
    process.start()


def _freeze(server: Server, faults: Faults, fault: Fault) -> None:
    server.freeze()
    faults.wait(fault, then=server.thaw)


def _freeze_server(server: Postgres | RedisServer | SoakSmtp, faults: Faults, fault: Fault) -> None:
    """Freeze it until somebody waits for its answer."""
    server.freeze()
    try:
        faults.wait_until_met(fault, lambda: waiting(server.port))
    finally:
        server.thaw()


def _make_read_only(faults: Faults, fault: Fault) -> None:
    """Refuse all writes, in the sessions that are open too, until somebody has met that."""
    refused = Logs(faults.system.worker_logs(), READ_ONLY)
    make_read_only(faults.system.libpq(), on=True)
    try:
        faults.wait_until_met(fault, refused.count)
    finally:
        make_read_only(faults.system.libpq(), on=False)


def _freeze_worker(faults: Faults, fault: Fault) -> None:
    _freeze(faults.process(fault), faults, fault)


def _empty_redis(faults: Faults, fault: Fault) -> None:
    faults.system.redis.flushall()


def _restart_redis(faults: Faults, fault: Fault) -> None:
    _restart(faults.system.redis, faults, fault)


def _restart(server: Server, faults: Faults, fault: Fault) -> None:
    server.kill_9()
    faults.wait(fault)
    server.start()


def _restart_postgres(faults: Faults, fault: Fault) -> None:
    faults.system.postgres.stop()
    faults.wait(fault)
    faults.system.postgres.start()


def _cut_postgres(faults: Faults, fault: Fault) -> None:
    statement = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < %s"
    )
    with psycopg.connect(faults.system.libpq(), autocommit=True) as connection:
        connection.execute(statement, [fault.detail["share"]])


def _misbehave(faults: Faults, fault: Fault) -> None:
    how = fault.kind.removeprefix("SMTP ").removesuffix("s")
    share, silence = float(fault.detail["share"]), float(fault.detail.get("silence", 0))
    faults.system.smtp.misbehave(how, share=share, seconds=silence)
    faults.wait(fault, then=faults.system.smtp.behave)


def _refuse_class(faults: Faults, fault: Fault) -> None:
    place, reply = str(fault.detail["place"]), str(fault.detail["reply"])
    trait = TRAITS[fault.kind]
    refusal = for_some_time(fault.kind, fault.at, trait=trait, place=place, reply=reply)
    refused = Logs([faults.system.notes], f"\t{refusal.name}\t")
    faults.system.smtp.refuse(refusal)
    try:
        # Until others were taken, too: a class alone shows nothing.
        faults.wait_until_met(fault, lambda: refused.count(before="\taccepted\t"))
    finally:
        faults.system.smtp.accept(refusal)


def _break_link(faults: Faults, fault: Fault) -> None:
    link = faults.system.hosts[fault.host].links[str(fault.detail["server"])]
    (link.cut if fault.kind == "network cut" else link.fall_silent)()
    faults.wait(fault, then=link.mend)


def _unplug(faults: Faults, fault: Fault) -> None:
    namespace = faults.system.hosts[fault.host].namespace
    assert namespace is not None, "only a host with a network of its own can be unplugged"
    namespace.unplug()
    faults.wait(fault, then=namespace.plug)


def _set_clock(faults: Faults, fault: Fault) -> None:
    clock = faults.system.hosts[fault.host].clock
    assert clock is not None, "no compiler, no wrong clocks"
    clock.set_off(int(fault.detail["offset"]))


PLAYS: dict[str, Callable[[Faults, Fault], None]] = {
    "worker killed": _kill,
    "worker's child killed": _kill_child,
    "worker stopped and started": _stop_and_start,
    "worker frozen": _freeze_worker,
    "beat killed": _kill,
    "web killed": _kill,
    "Redis emptied": _empty_redis,
    "Redis restarted": _restart_redis,
    "Redis frozen": lambda faults, fault: _freeze_server(faults.system.redis, faults, fault),
    "PostgreSQL restarted": _restart_postgres,
    "PostgreSQL killed": lambda faults, fault: _restart(faults.system.postgres, faults, fault),
    "PostgreSQL's connections cut": _cut_postgres,
    "PostgreSQL read-only": _make_read_only,
    "PostgreSQL frozen": lambda faults, fault: _freeze_server(
        faults.system.postgres, faults, fault
    ),
    "SMTP 4xx": _misbehave,
    "SMTP 5xx": _misbehave,
    "SMTP 421": _misbehave,
    "SMTP drops": _misbehave,
    "SMTP hangs": _misbehave,
    "SMTP frozen": lambda faults, fault: _freeze_server(faults.system.smtp, faults, fault),
    "SMTP restarted": lambda faults, fault: _restart(faults.system.smtp, faults, fault),
    "a domain refused": _refuse_class,
    "a sender refused": _refuse_class,
    "a size refused": _refuse_class,
    "network cut": _break_link,
    "network silent": _break_link,
    "network unplugged": _unplug,
    "clock off": _set_clock,
}
