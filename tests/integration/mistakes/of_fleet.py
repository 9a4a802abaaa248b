"""Mistakes in the fleet, told by the table in which workers and beats write themselves down."""

from __future__ import annotations

from typing import Any

from outbox.domain.fleet import BEAT, LIVING, SILENT
from tests.support.shop.fleet import entered, row

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
    "a worker on another broker",
    check="1 living worker stands in the table of the workers, and none answered over redis://",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.celery.conf.broker_url = trial.broker()
    worker(trial)
