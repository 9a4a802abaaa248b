"""Starts a real process in a millisecond: a warmed-up parent forks it. Each one ends by a signal.

This file is both sides: imported it is the test's, executed it is the parent. A child does what a
Celery worker's pool process does, a fork with the app imported; it runs the real tasks by their
names as they come from the broker. `test_celery` does the same with `celery worker` itself.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Self

from tests.kill.stage.faults import Clock, Fault, Witness
from tests.kill.stage.roles import Worker, rescue_only, serve
from tests.kill.stage.shop import Config, Shop, build
from tests.kill.stage.tracer import Kind, Tracer
from tests.support.servers import leash
from tests.support.servers.warm import Warm
from tests.support.waiting import wait_until

_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, kw_only=True)
class End:
    """How a child ended, or was stopped, and what it had told until then."""

    pid: int
    signal: signal.Signals
    offset: float
    facts: dict[str, Any]

    @property
    def done(self) -> bool:
        """Whether it came to the end of its work, and ended itself."""
        return bool(self.facts.get("done"))


class Nursery:
    """A context manager around the parent."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def __enter__(self) -> Self:
        self._directory = TemporaryDirectory(prefix="outbox-nursery-")
        self._log = Path(self._directory.name) / "log"
        address = str(Path(self._directory.name) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen()
            listener.settimeout(60)
            self._parent = Warm(
                __name__,
                [json.dumps(self._config), address],
                directory=_ROOT,
                environment=os.environ,
                log=self._log,
                ours=True,
            )
            leash.hold(self._parent.pid)
            with listener.accept()[0] as link:
                self._link = link.makefile("rw")
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._parent.pid, signal.SIGKILL)  # whoever is still stopped, too
        self._parent.wait()
        leash.release(self._parent.pid)
        self._link.close()
        self._directory.cleanup()

    def warm_up(self) -> None:
        """Have the parent go through all of it once, so that its children build no statement."""
        self._ask(do="warm up")

    def run(
        self,
        role: str,
        *,
        offset: float = 0.0,
        fault: Fault | None = None,
        at: int = -1,
        **worker: Any,
    ) -> End:
        """Run a child until it is dead or stopped. Of a `role` with "trace" each point is told.

        A role is "web", "rescuer", or "worker", with the arguments of a `Worker`.
        """
        return self._end(do="fork", role=role, offset=offset, fault=fault, at=at, worker=worker)

    def go_on(self, stopped: End, offset: float) -> End:
        """Let a stopped child run on, at a later time."""
        return self._end(do="continue", pid=stopped.pid, offset=offset)

    def _end(self, **job: Any) -> End:
        told = self._ask(**job)
        facts: dict[str, Any] = told["facts"]
        assert "error" not in facts, facts["error"]
        return End(
            pid=told["pid"],
            signal=signal.Signals(told["signal"]),
            offset=facts["offset"],
            facts=facts,
        )

    def _ask(self, **job: Any) -> dict[str, Any]:
        self._link.write(json.dumps(job) + "\n")
        self._link.flush()
        line = self._link.readline()
        assert line, f"the nursery ended:\n{self._log.read_text('utf-8')}"
        told: dict[str, Any] = json.loads(line)
        return told


class _Parent:
    """The process that forks. It holds no connection and no thread while it does."""

    def __init__(self, config: Config) -> None:
        self._shop = build(config)
        self._config = config
        self._clock = Clock()
        self._reports: dict[int, Any] = {}

    def obey(self, job: dict[str, Any]) -> dict[str, Any]:
        match job["do"]:
            case "warm up":
                return self._warm_up()
            case "fork":
                pid = self._fork(job)
            case _:
                pid, self._clock.offset = job["pid"], job["offset"]
                os.kill(pid, signal.SIGCONT)
        return self._wait(pid)

    def _warm_up(self) -> dict[str, Any]:
        shop = self._shop
        shop.stop_clocks()
        Worker(shop=shop).work()
        shop.dispose()
        wait_until(lambda: threading.active_count() == 1, 20, "no thread is left")
        gc.freeze()  # memory that no child's collector touches is never copied
        return {}

    def _fork(self, job: dict[str, Any]) -> int:
        report = TemporaryFile()  # noqa: SIM115  (open until the child is dead)
        pid = os.fork()
        if pid:
            self._reports[pid] = report
            return pid
        try:
            _live(self._shop, self._clock, report.fileno(), self._config["MAIL_PORT"], job)
        except BaseException:  # noqa: BLE001  (told to the test, whatever it is)
            _tell(report.fileno(), error=traceback.format_exc())
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    def _wait(self, pid: int) -> dict[str, Any]:
        _, status = os.waitpid(pid, os.WUNTRACED)
        report = self._reports[pid]
        report.seek(0)
        facts: dict[str, Any] = {}
        for line in report:
            facts.update(json.loads(line))
        stopped = os.WIFSTOPPED(status)
        number = os.WSTOPSIG(status) if stopped else os.WTERMSIG(status)
        if stopped:
            report.seek(0, os.SEEK_END)
        else:
            self._reports.pop(pid).close()
        return {"pid": pid, "signal": number, "facts": facts}


def _live(shop: Shop, clock: Clock, report: int, port: int, job: dict[str, Any]) -> None:
    """Be the child: do the work, and tell at the end how it was."""
    shop.stop_clocks(job["offset"])
    role, _, traced = job["role"].partition(" ")
    fault = Fault(job["fault"]) if job["fault"] else None
    witness = Witness(shop=shop, clock=clock, report=report, fault=fault, at=job["at"])
    published = 0

    def tell(point: Any) -> None:
        nonlocal published
        try:
            witness(point)
        finally:
            published += point.kind is Kind.PUBLISHED

    if traced:
        tracer = Tracer(tell=tell, engine=shop.engine, smtp_port=port, statements=role == "web")
        tracer.install()
    told: dict[str, Any] = {}
    match role:
        case "web":
            serve(shop, lambda: published)
        case "rescuer":
            rescue_only(shop)
        case _:
            told = Worker(shop=shop, **job["worker"]).work()
    offset = shop.runtime.database.offset
    _tell(report, done=True, offset=offset, points=witness.points, **told)


def _tell(report: int, **facts: Any) -> None:
    os.write(report, json.dumps(facts).encode() + b"\n")


def _main() -> None:
    config, address = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(address)
        parent, jobs = _Parent(json.loads(config)), link.makefile("rw")
        for line in jobs:
            jobs.write(json.dumps(parent.obey(json.loads(line))) + "\n")
            jobs.flush()


if __name__ == "__main__":
    _main()
