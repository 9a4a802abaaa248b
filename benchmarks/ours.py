"""This project as a contestant: an app on a database, and real Celery processes beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import Engine, select, text

from benchmarks.app import CONFIG, App, create_app
from benchmarks.load import message, newsletter
from outbox.domain.config.enqueue_options import Options
from outbox.domain.header.added_headers import AddedHeaders
from outbox.domain.message.render import RenderedMessage
from outbox.flask_ext.app.render_message import Renderer
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.process.runtime import Runtime
from tests.support.servers.celery_process import CeleryProcess

PROCESSES = 2


class Ours:
    """An outbox on one database, inside its app context."""

    def __init__(self, url: str, broker: str, port: int, **settings: Any) -> None:
        self.config: dict[str, Any] = {
            "SQLALCHEMY_DATABASE_URI": url,
            "REDIS_URL": broker,
            "MAIL_SERVER": "127.0.0.1",
            "MAIL_PORT": port,
            **settings,
        }
        self.app: App = create_app(self.config)
        self._processes = ExitStack()

    @property
    def runtime(self) -> Runtime:
        """The outbox's runtime in this process."""
        runtime: Runtime = self.app.flask.extensions["outbox"].runtime
        return runtime

    @property
    def engine(self) -> Engine:
        """The app's engine."""
        return self.app.db.engine

    def enqueue(self, numbers: Iterable[int], priority: str = "normal") -> None:
        """Commit a different email for each customer."""
        self.app.outbox.enqueue_many(map(message, numbers), priority=priority)
        self.app.db.session.commit()

    def enqueue_one(self, number: int, priority: str = "normal") -> None:
        """Commit one email, as a request does."""
        self.app.outbox.enqueue(message(number), priority=priority)
        self.app.db.session.commit()

    def build(self, number: int) -> RenderedMessage:
        """Check and render one email, as an enqueue does before it writes."""
        options = Options.check(priority="normal")
        renderer = Renderer(
            settings=self.runtime.settings, options=options, added_headers=AddedHeaders()
        )
        return renderer.render(message(number))

    def newsletter(self, readers: int, priority: str = "bulk", *, fields: bool = False) -> None:
        """Commit emails of one content to so many readers; with `fields` it names each reader."""
        addresses = (f"reader-{number}@example.com" for number in range(readers))
        self.app.outbox.enqueue_many(
            newsletter("{{ reader }}" if fields else "reader"),
            addresses,
            priority=priority,
            fields=(lambda address: {"reader": address}) if fields else None,
        )
        self.app.db.session.commit()

    def worker(
        self, processes: int = PROCESSES, *, pool: str = "prefork", **config: Any
    ) -> CeleryProcess:
        """Start a worker with so many processes, threads or greenlets.

        `config` overrides the app's settings for it.
        """
        return self._start("worker", f"--concurrency={processes}", f"--pool={pool}", config=config)

    def beat(self) -> CeleryProcess:
        """Start beat."""
        return self._start("beat", config={})

    def stop(self) -> None:
        """Stop the worker and beat."""
        self._processes.close()

    def finish_claims(self) -> None:
        """Send the batches here whose tasks no worker took before it was stopped.

        Their leases would hold slots in the next measurement.
        """
        lease = self.runtime.tables.lease.c
        with self.engine.connect() as connection:
            tokens = connection.execute(select(lease.token)).scalars().all()
        for token in tokens:
            send_batch(self.runtime, token)

    def sweep(self) -> None:
        """Publish a sweep task, as beat would."""
        self.app.celery.send_task("outbox.sweep", queue="outbox.sweep")

    def scalar(self, statement: str) -> Any:
        """Return the single value that an SQL statement returns."""
        with self.engine.connect() as connection:
            return connection.execute(text(statement)).scalar()

    def rows(self, statement: str) -> list[Any]:
        """Return the rows that an SQL statement returns."""
        with self.engine.connect() as connection:
            return list(connection.execute(text(statement)))

    def run(self, *statements: str) -> None:
        """Run SQL statements in autocommit, because VACUUM cannot run in a transaction."""
        options = {"isolation_level": "AUTOCOMMIT"}
        with self.engine.connect().execution_options(**options) as connection:
            for statement in statements:
                connection.execute(text(statement))

    def _start(self, role: Any, *options: str, config: dict[str, Any]) -> CeleryProcess:
        environment = {CONFIG: json.dumps(self.config | config)}
        process = CeleryProcess("benchmarks.app", role, *options, environment=environment)
        return self._processes.enter_context(process)


@contextmanager
def ours(
    url: str, broker: str, port: int, *, nudge: bool = False, **settings: Any
) -> Iterator[Ours]:
    """Make the tables and lend the outbox; without `nudge` no commit wakes a sweep."""
    made = Ours(url, broker, port, OUTBOX_NUDGE=nudge, **settings)
    with made.app.flask.app_context():
        made.app.db.create_all()
        try:
            yield made
        finally:
            made.stop()
            made.app.db.session.remove()
            made.engine.dispose()
