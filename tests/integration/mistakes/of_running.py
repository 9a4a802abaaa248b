"""Mistakes in how the parts are run: tables, beat, workers, broker, clocks, servers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import sqlalchemy as sa
from celery.concurrency.thread import TaskPool
from redis import Redis, ResponseError
from sqlalchemy import MetaData, Table

from outbox.store.instance import row
from outbox.worker.beat_mark import note_beat
from outbox.worker.sweep import sweep
from tests.support.servers.missing import missing
from tests.support.servers.ports import free_port
from tests.support.servers.smtp.scripted import HELLO, ScriptedServer, expect

from .table import Table as Cases
from .trial import Trial

CASES = Cases()
mistake = CASES.mistake

NO_TABLES = "the outbox's tables are missing: run your migrations"


def without_tables(trial: Trial) -> None:
    trial.app(SQLALCHEMY_DATABASE_URI=f"sqlite:///{trial.folder}/empty.db")


@mistake("no migration was run", exception=NO_TABLES, check=NO_TABLES, health=NO_TABLES)
def _(trial: Trial) -> None:
    without_tables(trial)
    trial.enqueue()


ENV_PY = "its env.py must make the app first, or it does not know these tables"


@mistake("a migration by Alembic whose env.py makes no app", exception=ENV_PY, check=ENV_PY)
def _(trial: Trial) -> None:
    without_tables(trial)
    trial.enqueue()


@mistake("a verb before the first migration", exception=f"MissingTables: {NO_TABLES}")
def _(trial: Trial) -> None:
    without_tables(trial)
    with trial.apps[-1].app_context():
        trial.outbox.stats()


@mistake(
    "a migration by Flask-Migrate that does not know our tables",
    check="flask db migrate would remove the outbox's tables",
)
def _(trial: Trial) -> None:
    other = SimpleNamespace(db=SimpleNamespace(metadata=MetaData()))
    Table("orders", other.db.metadata)
    trial.app().extensions["migrate"] = other


@mistake(
    "a path of SQLite that depends on the working directory",
    start="SQLite's file is ",
    check="because this process was started in that folder",
)
def _(trial: Trial) -> None:
    given = Path(sa.make_url(trial.url).database or "")
    path = Path("/".join([".."] * len(Path.cwd().parts[1:]))) / given.relative_to("/")
    app = trial.app(init=False)
    engine = trial.engine(f"sqlite:///{path}")
    trial.outbox.init_app(app, session=trial.db.session, metadata=trial.db.metadata, engine=engine)


@mistake(
    "no Celery app",
    check="this Flask app has no Celery app: call outbox.celery_config.configure",
    health="this Flask app has no Celery app: call outbox.celery_config.configure",
)
def _(trial: Trial) -> None:
    trial.app().extensions["celery"] = None
    trial.enqueue()
    trial.later(301)


@mistake(
    "task_queues forgotten",
    check="task_queues has no outbox.sweep, outbox.urgent, outbox.normal, outbox.bulk",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.celery.conf.task_queues = None


@mistake(
    "beat's schedule forgotten",
    check="beat's schedule has no outbox.sweep: call outbox.celery_config.configure",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.celery.conf.beat_schedule = {}


@mistake(
    "beat forgotten",
    check="no task of beat was ever seen in this database: start one beat",
    health="no task of beat was ever seen in this database: start one beat",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue()
    trial.later(301)


@mistake(
    "beat stopped, though nothing is late yet",
    check="error  no task of beat was seen for 70",
    health="no task of beat was seen for 70",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.beats()
    trial.later(701)


@mistake(
    "no worker, or a worker on another broker",
    check="no worker answered over redis://",
    health="no worker answered over redis://",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.celery.conf.broker_url = trial.broker()
    trial.enqueue()
    trial.later(301)


@mistake(
    "a broker that is away",
    check="error  the broker redis://127.0.0.1:1/0 cannot be reached",
    health="the broker redis://127.0.0.1:1/0 cannot be reached",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue()
    trial.later(301)


@mistake("claimed emails that no worker takes", health="1 email has been due or claimed for over")
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue()
    trial.run("sweep")  # the broker is away: the batch is claimed, and never published
    trial.later(301)


@mistake(
    "a pause that nobody ended",
    check="paused: all (flask outbox resume all)",
    health="paused: all (flask outbox resume all)",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue()
    trial.run("pause")
    trial.later(301)


@mistake(
    "a pool of connections smaller than a quarter of the worker's threads",
    start="the engine's pool keeps 5 connections open, and a worker runs 24 tasks at once",
    check="the engine's pool keeps 5 connections open, and a worker runs 24 tasks at once",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.pools, trial.concurrency = TaskPool, 24
    trial.celery.conf.update(worker_pool="threads", worker_concurrency=24)


@mistake(
    "time limits below those of SMTP",
    check="a time_limit of 60 s, and it may wait 1530 s",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.celery.conf.task_annotations = {"outbox.send": {"time_limit": 60}}


@mistake(
    "clocks that differ",
    log="this host's clock is 605 s behind the database's",
    check="this host's clock is 605 s behind the database's",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.later(605)
    note_beat(trial.runtime)  # a worker's first task that beat asked for


@mistake(
    "a server that nobody runs",
    log="is halted (",
    check="is halted since",
    health="is halted since",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_SERVER="127.0.0.1", MAIL_PORT=free_port(), MAIL_USE_TLS=False)
    trial.enqueue()
    assert "is halted since" in trial.run("drain")


@mistake(
    "a wrong password",
    log="is halted (",
    check="ALERT: ",
    health="ALERT: ",
)
def _(trial: Trial) -> None:
    ehlo = expect("EHLO", "250-mx.example\n250 AUTH PLAIN")
    refusing = (HELLO[0], ehlo, expect("AUTH", "535 5.7.8 wrong"))
    with ScriptedServer(refusing) as server:
        trial.app(
            MAIL_SERVER="127.0.0.1",
            MAIL_PORT=server.port,
            MAIL_USE_TLS=False,
            MAIL_USERNAME="jo",
            MAIL_PASSWORD="hunter2",
            OUTBOX_CLEARTEXT_AUTH=True,
        )
        trial.enqueue()
        trial.run("drain")
        trial.runtime.disconnect()
    assert "hunter2" not in trial.logged() + trial.run("check") + trial.run("health", "--json")


@mistake(
    "a staging app on a copy of production's tables",
    log="nothing is sent: OUTBOX_INSTANCE is 'staging', but these tables are 'production''s",
    check="nothing is sent: OUTBOX_INSTANCE is 'staging', but these tables are 'production''s",
    health="nothing is sent: OUTBOX_INSTANCE is 'staging', but these tables are 'production''s",
)
def _(trial: Trial) -> None:
    trial.app(OUTBOX_INSTANCE="production")
    sweep(trial.runtime, lambda made: None)
    trial.app(OUTBOX_INSTANCE="staging")
    trial.enqueue()
    assert sweep(trial.runtime, lambda made: None) == 0


@mistake(
    "a restore that was interrupted",
    check="`flask outbox restored` has not come to its end: run it again",
    health="`flask outbox restored` has not come to its end: run it again",
)
def _(trial: Trial) -> None:
    trial.app()
    sweep(trial.runtime, lambda made: None)
    database = trial.runtime.database
    database.run(lambda connection: row.change(connection, database, holding_at=database.now()))


@mistake(
    "held emails that nobody released",
    check="1 email is held since a restore (flask outbox held, flask outbox release)",
)
def _(trial: Trial) -> None:
    app = trial.app()
    trial.enqueue()
    with app.app_context():
        trial.outbox.restored()


def _set_in_redis(trial: Trial, name: str, value: str) -> None:
    trial.app()
    trial.celery.conf.broker_url = url = trial.broker()
    with Redis.from_url(url) as client:
        try:
            client.config_set(name, value)
            client.config_get(name)
        except ResponseError:  # fakeredis
            missing("a Redis that has settings", "apt install redis-server")


@mistake(
    "a Redis that throws keys away",
    check="Redis may throw keys away when its memory is full (maxmemory-policy allkeys-lru)",
)
def _(trial: Trial) -> None:
    _set_in_redis(trial, "maxmemory-policy", "allkeys-lru")


@mistake(
    "a Redis whose memory is full",
    check="Redis's memory is full (maxmemory 1024), so it takes no task: raise maxmemory",
)
def _(trial: Trial) -> None:
    _set_in_redis(trial, "maxmemory", "1024")
