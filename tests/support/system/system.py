"""A whole system for each test: web app, database, broker, SMTP server, workers, beat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal

from flask import Flask

from outbox import Priority, Stats, Status
from outbox.store.control.circuit_breaker import read
from outbox.store.records import Breaker
from outbox.worker.process.runtime import Runtime
from outbox.worker.sweep import publish, sweep
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.app import create_app, db, outbox
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]

WINDOW = 5
SLOTS = 2
LEASE = 3.0
DEADLINE = 90.0

LIKE_PRODUCTION = {
    "OUTBOX_WINDOW": 20,
    "OUTBOX_BATCH": 400,
    "OUTBOX_SLOTS": 4,
    "OUTBOX_LEASE": 30.0,
}
"""The settings' defaults, for what is measured: the others here make short tests."""


class System:
    """The app of one test and what runs around it."""

    def __init__(self, url: str, broker: Broker, catcher: Catcher, **settings: Any) -> None:
        self.broker = broker
        self.catcher = catcher
        self.config: dict[str, Any] = {
            "SECRET_KEY": "for this test only",
            "SQLALCHEMY_DATABASE_URI": url,
            "REDIS_URL": broker.url,
            "MAIL_SERVER": catcher.host,
            "MAIL_PORT": catcher.port,
            "OUTBOX_WINDOW": WINDOW,
            "OUTBOX_BATCH": 50,
            "OUTBOX_SLOTS": SLOTS,
            "OUTBOX_LEASE": LEASE,
            **settings,
        }
        self.app: Flask = create_app(self.config)
        self._processes = ExitStack()
        self._started: list[CeleryProcess] = []

    @property
    def runtime(self) -> Runtime:
        runtime: Runtime = self.app.extensions["outbox"].runtime
        return runtime

    def worker(
        self, *options: str, concurrency: int = SLOTS, pool: str = "prefork", tree: Path = ROOT
    ) -> CeleryProcess:
        """Start a real worker with further options, of the code in `tree`."""
        return self._start(self._worker(concurrency, tree, pool, *options))

    def beat(self, *, tree: Path = ROOT) -> CeleryProcess:
        """Start a real beat, of the code in `tree`."""
        return self._start(self._celery("beat", tree=tree))

    def two_workers_and_beat(self, *options: str) -> list[CeleryProcess]:
        """Start two workers of two processes each, and beat, at the same time; return them.

        `options` are the workers'.
        """
        pair = [self._worker(2, ROOT, "prefork", *options) for _ in range(2)]
        made = [*pair, self._celery("beat")]
        with ThreadPoolExecutor(len(made)) as pool:
            return list(pool.map(self._start, made))

    def _start(self, process: CeleryProcess) -> CeleryProcess:
        self._started.append(process)
        return self._processes.enter_context(process)

    def _worker(
        self, concurrency: int, tree: Path = ROOT, pool: str = "prefork", *options: str
    ) -> CeleryProcess:
        given = (f"--concurrency={concurrency}", f"--pool={pool}", *options)
        # gevent replaces parts of the standard library before anything else is imported.
        return self._celery("worker", *given, tree=tree, warm=pool != "gevent")

    def _celery(
        self,
        role: Literal["worker", "beat"],
        *options: str,
        tree: Path = ROOT,
        warm: bool = True,
    ) -> CeleryProcess:
        return CeleryProcess(
            "tests.support.system.app",
            role,
            *options,
            environment=self.environment(tree),
            working_directory=tree,
            warm=warm,
        )

    def environment(self, tree: Path) -> dict[str, str]:
        """Return what a process of the code in `tree` needs: that code and this configuration."""
        made = {"ACCEPTANCE_CONFIG": json.dumps(self.config), "REDIS_URL": self.broker.url}
        if tree != ROOT:
            # Its lines do not count: they are gone before the report.
            unmeasured = {"COVERAGE_PROCESS_START": "", "COVERAGE_PROCESS_CONFIG": ""}
            made |= {"PYTHONPATH": str(tree), **unmeasured}
        return made

    def newsletter(
        self, readers: int, *, domain: str = "example.com", priority: Priority = Priority.NORMAL
    ) -> list[str]:
        """Commit a newsletter; return its readers."""
        message = EmailMessage()
        message["From"] = "news@shop.example"
        message["Subject"] = "News"
        message.set_content("All the news.\n")
        addresses = [f"reader-{number}@{domain}" for number in range(readers)]
        outbox.enqueue_many(message, addresses, tag="news", priority=priority)
        db.session.commit()
        return addresses

    def reset(self, to: str) -> None:
        """Commit one urgent email, as a forgotten password brings it."""
        message = EmailMessage()
        message["From"], message["To"] = "shop@shop.example", to
        message.set_content("Your new password.\n")
        outbox.enqueue(message, priority=Priority.URGENT)
        db.session.commit()

    def sweep(self) -> None:
        """Sweep once in this process, as beat would have a worker do."""
        sweep(self.runtime, publish(self.runtime))

    def counts(self) -> dict[Status, int]:
        """Return how many emails there are in each status."""
        return outbox.counts()

    def counters(self) -> dict[str, int]:
        """Return the counters of rare events."""
        return self.stats().counters

    def stats(self) -> Stats:
        """Return what `flask outbox stats` shows."""
        return outbox.stats()

    def halted(self) -> list[Breaker]:
        """Return the breakers that stand open."""
        database = self.runtime.database
        known = database.run(lambda connection: read(connection, database))
        return [breaker for breaker in known.values() if breaker.is_open]

    def wait_sent(self, emails: int) -> None:
        """Wait until all of these emails are sent and none is in any other status."""
        wait_until(
            lambda: self.counts() == {Status.SENT: emails},
            DEADLINE,
            lambda: f"all sent: {self.stats()}",
        )

    def close(self) -> None:
        """Stop the processes, all at the same time, and free the connections."""
        for process in self._started:
            if process.running:
                process.thaw()
                process.terminate()
        self._processes.close()
        self.runtime.disconnect()
        with self.app.app_context():
            db.session.remove()
            db.engine.dispose()


@contextmanager
def running(url: str, broker: Broker, catcher: Catcher, **settings: Any) -> Iterator[System]:
    """Make a system with its tables, inside its app context."""
    system = System(url, broker, catcher, **settings)
    with system.app.app_context():
        db.create_all()
        try:
            yield system
        finally:
            catcher.open_all()  # a warm shutdown waits for the emails under way
            system.close()
