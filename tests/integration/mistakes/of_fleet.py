"""Mistakes in the fleet, told by the table in which workers and beats write themselves down."""

from __future__ import annotations

from functools import partial
from typing import Any

from redis import Redis, ResponseError

from outbox import Priority
from outbox.domain.fleet import BEAT, LIVING, SILENT
from outbox.store.control import fleet
from outbox.store.transitions.start import start
from outbox.worker.beat_mark import note_task
from tests.support.servers.missing import missing
from tests.support.shop.fleet import entered, row
from tests.support.shop.steps.claims import claim_batch
from tests.support.waiting import wait_until

from .table import Table as Cases
from .trial import Trial

CASES = Cases()
mistake = CASES.mistake

NAME = "celery@host"


def worker(trial: Trial, **values: Any) -> None:
    """Have a worker of another host write itself down."""
    entered(trial.runtime, row(NAME, **values))


@mistake(
    "a worker that was killed",
    check="the worker celery@host is dead",
    health="the worker celery@host is dead",
)
def _(trial: Trial) -> None:
    trial.app()
    worker(trial)
    trial.later(LIVING + 1)


@mistake(
    "a worker that no longer reaches the database",
    check="the worker celery@host is silent",
    health="the worker celery@host is silent",
)
def _(trial: Trial) -> None:
    trial.app()
    worker(trial)
    trial.later(SILENT + 1)


@mistake(
    "queues without a worker",
    check="error  no living worker listens to outbox.urgent, outbox.normal, outbox.bulk",
    health="no living worker listens to outbox.urgent, outbox.normal, outbox.bulk",
)
def _(trial: Trial) -> None:
    trial.app()
    worker(trial, queues="outbox.sweep outbox.low")
    trial.enqueue()
    trial.later(31)


@mistake(
    "an upgrade that left out a host",
    check="and there run 0.0.9: celery@host",
    health="and there run 0.0.9: celery@host",
)
def _(trial: Trial) -> None:
    trial.app()
    worker(trial, version="0.0.9")


@mistake(
    "a worker with other settings",
    check="celery@host has other settings than this process: OUTBOX_LEASE",
    health="celery@host has other settings than this process: OUTBOX_LEASE",
)
def _(trial: Trial) -> None:
    trial.app()
    worker(trial, settings='{"OUTBOX_LEASE": "0"}')


@mistake("a beat that died", check="error  beat@host is dead", health="beat@host is dead")
def _(trial: Trial) -> None:
    trial.app()
    entered(trial.runtime, row("beat@host", pool=BEAT, queues="", concurrency=0, slots=0))
    trial.later(LIVING + 1)


@mistake(
    "a broker that went away, though beat and a worker live",
    check="s, though beat and 1 worker live: the broker is away",
    health="s, though beat and 1 worker live: the broker is away",
)
def _(trial: Trial) -> None:
    trial.app()
    runtime = trial.runtime
    note_task(runtime)
    a_beat = row("beat@host", pool=BEAT, queues="", concurrency=0, slots=0)
    known = [entered(runtime, values) for values in (row(NAME), a_beat)]
    trial.later(25)
    for one in known:
        runtime.database.run(
            partial(fleet.renew, database=runtime.database, worker=one, changes={})
        )


@mistake(
    "a Redis that cannot save",
    check="takes no task, because it cannot save its data (OperationalError)",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.celery.conf.broker_url = url = trial.broker()
    with Redis.from_url(url) as client:
        try:
            for name, value in _UNSAVED.items():
                client.config_set(name, value)
        except ResponseError:  # fakeredis
            missing("a Redis that has settings", "apt install redis-server")
        client.bgsave()
        wait_until(lambda: _is_refused(client), 10.0, "the save to have failed")


_UNSAVED = {"dir": "/proc", "save": "3600 1", "stop-writes-on-bgsave-error": "yes"}


def _is_refused(client: Redis) -> bool:
    try:
        client.ping()
    except ResponseError:
        return True
    return False


@mistake(
    "an email that ends each worker that has it",
    check="was with 2 workers that were lost",
    health="was with 2 workers that were lost",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue()
    database, email = trial.runtime.database, trial.runtime.tables.email
    database.run(lambda connection: connection.execute(email.update().values(crashes=1)))
    for made in claim_batch(database, Priority.NORMAL, 10, lease_seconds=30.0):
        start(database, made.token, lease_seconds=30.0, worker=NAME)
    trial.later(25)


@mistake(
    "a worker on another broker",
    check="1 living worker stands in the table of the workers, and none answered over redis://",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.celery.conf.broker_url = trial.broker()
    worker(trial)
