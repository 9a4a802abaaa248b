"""An app as a newcomer writes it, and the places that tell of a mistake in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from celery import Celery
from celery.concurrency.prefork import TaskPool
from celery.signals import celeryd_after_setup
from click.testing import CliRunner
from flask import Flask
from flask.cli import FlaskGroup
from flask_mail import Message
from flask_sqlalchemy import SQLAlchemy

from outbox import Outbox
from outbox.store.control import beat
from outbox.worker.broker.queues import QUEUES, beat_schedule
from outbox.worker.process.runtime import Runtime

NOBODY = "redis://127.0.0.1:1/0"
"""A broker that is away: nothing listens there."""

RIGHT = {
    "MAIL_SERVER": "mx.example",
    "MAIL_USE_TLS": True,
    "MAIL_DEFAULT_SENDER": "shop@shop.example",
    "OUTBOX_NUDGE": False,  # no broker runs
}


def letter(*to: str, **values: Any) -> Message:
    """Return a message to these people, or to one customer."""
    people: list[str | tuple[str, str]] = list(to or ("ada@customers.example",))
    return Message("Your order", recipients=people, body="Thank you.", **values)


@dataclass(kw_only=True)
class Trial:
    """One mistake: the app that it is made in, and what is said of it."""

    url: str  # a database with the outbox's tables
    folder: Path
    logged: Callable[[], str]
    broker: Callable[[], str]  # starts a Redis
    raised: Exception | None = None
    apps: list[Flask] = field(default_factory=list)
    engines: list[sa.Engine] = field(default_factory=list)  # beside the apps' own
    factory: Callable[[], Flask] | None = None
    """Makes the app when the flask command asks for it; None: the app that was made last."""
    pools: Any = TaskPool
    concurrency: int = 2

    def app(self, *, init: bool = True, **config: Any) -> Flask:
        """Make the app; what is given replaces what is right."""
        app = Flask("shop", instance_path=str(self.folder))
        app.config.update({"SQLALCHEMY_DATABASE_URI": self.url} | RIGHT | config)
        self.db, self.outbox, self.celery = SQLAlchemy(app), Outbox(), self.celery_app()
        self.apps.append(app)
        app.extensions["celery"] = self.celery
        if init:
            self.outbox.init_app(app, db=self.db)
        return app

    def engine(self, url: str) -> sa.Engine:
        """Make an engine that is closed with the trial."""
        self.engines.append(sa.create_engine(url))
        return self.engines[-1]

    def celery_app(self, **config: Any) -> Celery:
        app = Celery("shop", broker=NOBODY, set_as_current=False)
        app.conf.update(
            beat_schedule=beat_schedule(),
            task_queues=QUEUES,
            worker_disable_prefetch=True,
            beat_scheduler="outbox.celery_config:SteadyScheduler",
            **config,
        )
        return app

    @property
    def runtime(self) -> Runtime:
        found: Runtime = self.apps[-1].extensions["outbox"].runtime
        return found

    def later(self, seconds: float) -> None:
        """Move the database's clock."""
        self.runtime.database.offset += seconds

    def beats(self) -> None:
        """Leave the mark of beat's sweep."""
        database = self.runtime.database
        beat.note(database)

    def enqueue(self, **options: Any) -> None:
        """Enqueue an email and commit."""
        with self.apps[-1].app_context():
            self.outbox.enqueue(letter(), **options)
            self.db.session.commit()

    def run(self, *words: str) -> str:
        """Return what `flask outbox …` prints."""
        if self.factory is not None:
            command = FlaskGroup(create_app=self.factory, load_dotenv=False)
            return CliRunner().invoke(command, ["outbox", *words]).output
        return self.apps[-1].test_cli_runner().invoke(args=["outbox", *words]).output

    def start(self) -> str:
        """Return the log of a worker that starts."""
        # A double of Celery's Worker, which would change this process for good.
        worker = SimpleNamespace(
            app=self.celery,
            concurrency=self.concurrency,
            pool_cls=self.pools,
            time_limit=None,
            soft_time_limit=None,
        )
        celeryd_after_setup.send(sender="host", instance=worker, conf=self.celery.conf)
        return self.logged()

    def told(self, place: str) -> str:
        """Return what a place says of the mistake."""
        match place:
            case "exception":
                return f"{type(self.raised).__name__}: {self.raised}"
            case "check" | "health":
                return self.run(place)
            case "start":
                return self.start()
        assert place == "log"
        return self.logged()

    def close(self) -> None:
        for engine in self.engines:
            engine.dispose()
        for app in self.apps:
            if "outbox" in app.extensions:
                app.extensions["outbox"].runtime.disconnect()
            with app.app_context():
                for engine in app.extensions["sqlalchemy"].engines.values():
                    engine.dispose()
            if app.extensions["celery"] is not None:
                app.extensions["celery"].close()
