"""Examines the workers for `check` and `health`: does one listen to each of our queues?"""

from __future__ import annotations

from celery import Celery

from ...worker.process.fleet import SENDING, NoAnswer, forgotten, unheard, workers
from .finding import Finding, error, ok, warn

_QUEUES = "task_queues = outbox.celery_config.QUEUES"


def fleet_findings(app: Celery) -> list[Finding]:
    """Return the findings on the configured queues, and on those that workers listen to.

    A worker with -Q needs no `task_queues`: so the running workers are asked, too.
    """
    lacking = forgotten(app)
    try:
        running = workers(app)
    except NoAnswer as silence:
        return [*_lacking(lacking), warn(f"workers: {silence}")]
    if not running:
        text = "no worker answered: if none runs, start one (celery -A yourapp worker)"
        return [*_lacking(lacking), warn(text)]
    if not (deaf := unheard(running)):
        return [ok(f"each of our queues has a worker that listens, of {len(running)}")]
    level = error if SENDING.intersection(deaf) else warn
    remedy = f"set {_QUEUES} in your Celery config, or start a worker with -Q {','.join(deaf)}"
    told = "of the workers that run, none listens to"
    return [*_lacking(lacking), level(f"{told} {', '.join(deaf)}: {remedy}")]


def _lacking(names: list[str]) -> list[Finding]:
    if not names:
        return []
    level = error if SENDING.intersection(names) else warn
    told = f"task_queues has no {', '.join(names)}: a worker without -Q does not listen there"
    return [level(f"{told}; set {_QUEUES} in your Celery config")]
