"""Examines the workers for `check` and `health`: does one listen to each of our queues?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery import Celery
from sqlalchemy.exc import SQLAlchemyError

from ....store.control import beat
from ....worker.process.fleet import (
    SENDING,
    NoAnswer,
    Unreachable,
    broker_name,
    forgotten,
    unheard,
    workers,
)
from ....worker.process.queues import PURGE_INTERVAL
from .finding import Finding, error, ok, warn
from .workers import fetching_by_settings, worker_findings

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

_NOBODY = (
    "no worker answered over {broker}: start one (celery -A yourapp worker), or if one runs, give"
    " it and this process the same broker_url"
)
_NO_BROKER = "start it, or mend broker_url; until then emails wait, and none is lost"
_NO_BEAT = (
    "start one beat (celery -A yourapp beat), or let cron run flask outbox sweep; if beat and a"
    " worker run, they use another database or broker than this process. Without beat an email that"
    " was put off, or whose worker died, waits until somebody commits"
)
UNSEEN = 2 * PURGE_INTERVAL + beat.EVERY
"""Seconds without a mark from which on beat counts as stopped. Under a heavy load sweeps wait in
the queue all the time, so beat publishes no other, and only its purges leave marks."""
_REMEDY = (
    "call outbox.celery_config.configure(celery_app, flask_app), or set task_queues ="
    " outbox.celery_config.QUEUES in your Celery config"
)


def fleet_findings(app: Celery, runtime: Runtime | None = None) -> list[Finding]:
    """Return the findings on the configured queues, and on those that workers listen to.

    A worker with -Q needs no `task_queues`: so the running workers are asked, too. With
    `task_always_eager` neither a broker nor a worker is needed.
    """
    if app.conf.task_always_eager:
        return []
    lacking, unseen = forgotten(app), fetching_by_settings(app) if runtime else []
    try:
        running = workers(app)
    except Unreachable as silence:
        return [*_lacking(lacking), error(f"{silence}: {_NO_BROKER}"), *unseen]
    except NoAnswer as silence:
        return [*_lacking(lacking), warn(f"workers: {silence}"), *unseen]
    if not running:
        nobody = warn(_NOBODY.format(broker=broker_name(app)))
        return [*_lacking(lacking), nobody, *unseen]
    amiss = worker_findings(app, running, runtime)
    if not (deaf := unheard(running)):
        return [ok(f"each of our queues has a worker that listens, of {len(running)}"), *amiss]
    level = error if SENDING.intersection(deaf) else warn
    remedy = f"{_REMEDY}, or start a worker with -Q {','.join(deaf)}"
    told = "of the workers that run, none listens to"
    return [*_lacking(lacking), level(f"{told} {', '.join(deaf)}: {remedy}"), *amiss]


def _lacking(names: list[str]) -> list[Finding]:
    if not names:
        return []
    level = error if SENDING.intersection(names) else warn
    told = f"task_queues has no {', '.join(names)}: a worker without -Q does not listen there"
    return [level(f"{told}; {_REMEDY}")]


def beat_findings(runtime: Runtime) -> list[Finding]:
    """Return the finding on the last task of beat; none where the database does not tell."""
    try:
        return [beat_finding(runtime.database.read(lambda c: beat.age(c, runtime.database)))]
    except SQLAlchemyError:  # the findings on the database tell of it
        return []


def beat_finding(age: float | None) -> Finding:
    """Return the finding on a mark of beat that is so many seconds old; None: there is none."""
    if age is None:
        return warn(f"no task of beat was ever seen in this database: {_NO_BEAT}")
    if age > UNSEEN:
        return error(f"no task of beat was seen for {age:.0f} s: {_NO_BEAT}")
    return ok(f"beat, or cron, was seen {age:.0f} s ago (noted once a minute)")
