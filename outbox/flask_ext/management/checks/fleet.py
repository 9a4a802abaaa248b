"""Examines the workers for `check` and `health`: does one listen to each of our queues?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery import Celery
from sqlalchemy.exc import SQLAlchemyError

from ....domain.counted import counted
from ....store.control import beat
from ....worker.broker.queues import PURGE_INTERVAL
from ....worker.fleet.inquiry import (
    SENDING,
    CannotSave,
    NoAnswer,
    Unreachable,
    broker_name,
    forgotten,
    unheard,
    workers,
    workers_answer,
)
from ..results import Fleet
from .codes import Code
from .finding import Finding, error, ok, warn
from .fleet_table import judged, judged_but_for_queues
from .workers import fetching_by_settings, worker_findings

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

_NOBODY = (
    "no worker answered over {broker}: start one (celery -A yourapp worker), or if one runs, give"
    " it and this process the same broker_url"
)
_MUTE = (
    "{living} in the table of the workers, and none answered over {broker}: give this process"
    " their broker_url; or all are busy, because the pool solo answers between two tasks only"
)
_UNASKED = "worker_enable_remote_control is off, so no worker was asked"
_NO_BROKER = "start it, or mend broker_url; until then emails wait, and none is lost"
_UNSAVED = (
    "its own log says why. Give its folder room and rights, or set stop-writes-on-bgsave-error to"
    " no: the outbox needs nothing that it saves. Emails wait, and none is lost; Celery's workers"
    " may have ended, so see that they run again"
)
_NO_BEAT = (
    "start one beat (celery -A yourapp beat), or let cron run flask outbox sweep; if beat and a"
    " worker run, their -A names a module that does not create the Flask app, or they use another"
    " database or broker than this process. Without beat an email that was put off, or whose worker"
    " died, waits until somebody commits"
)
UNSEEN = 2 * PURGE_INTERVAL + beat.EVERY
"""Seconds without a mark from which on beat counts as stopped. Under a heavy load sweeps wait in
the queue all the time, so beat publishes no other, and only its purges leave marks."""
_MODULE = "the module that their `celery -A` names must create the Flask app"
_RESTART = "restart the workers, if they were started before their app had these queues"
_REMEDY = (
    "call outbox.celery_config.configure(celery_app, flask_app), or set task_queues ="
    " outbox.celery_config.QUEUES in your Celery config"
)


def fleet_findings(
    app: Celery,
    runtime: Runtime | None = None,
    fleet: Fleet | None = None,
    *,
    is_served: bool = False,
) -> list[Finding]:
    """Return the findings on the configured queues, and on those that workers listen to.

    A worker with -Q needs no `task_queues`: so the running workers are asked, too. With
    `task_always_eager` neither a broker nor a worker is needed. `fleet` is what their table says.
    `is_served` tells that our tasks are done, whoever does them: see `workers.is_served`.
    """
    if app.conf.task_always_eager:
        return []
    lacking = _lacking(forgotten(app))
    unasked = [*(fetching_by_settings(app) if runtime else []), *(judged(fleet) if fleet else [])]
    try:
        running = workers(app)
    except CannotSave as refusal:
        return [*lacking, error(f"{refusal}: {_UNSAVED}", Code.BROKER), *unasked]
    except Unreachable as silence:
        return [*lacking, error(f"{silence}: {_NO_BROKER}", Code.BROKER), *unasked]
    except NoAnswer as silence:
        return [*lacking, warn(f"workers: {silence}", Code.BROKER), *unasked]
    if not running:
        return [*lacking, _nobody(app, fleet), *unasked]
    amiss = worker_findings(app, running, runtime, fleet, is_served=is_served)
    amiss += judged_but_for_queues(fleet) if fleet else []
    if not (deaf := unheard(running)):
        answered = counted(len(running), "worker", "workers")
        text = f"each of our queues has a worker that listens; {answered} answered"
        return [ok(text, Code.UNHEARD), *amiss]
    level = error if SENDING.intersection(deaf) else warn
    remedy = f"{_MODULE}; {_RESTART}; otherwise {_REMEDY}, or start a worker with -Q"
    remedy += f" {','.join(deaf)}"
    told = "of the workers that run, none listens to"
    return [*lacking, level(f"{told} {', '.join(deaf)}: {remedy}", Code.UNHEARD), *amiss]


def _nobody(app: Celery, fleet: Fleet | None) -> Finding:
    """Return the finding that no worker has answered."""
    if not workers_answer(app):
        return _by_table(fleet)
    broker = broker_name(app)
    if fleet is None or not fleet.living:
        return warn(_NOBODY.format(broker=broker), Code.NO_WORKER)
    living = _living(fleet)
    return warn(_MUTE.format(living=living, broker=broker), Code.NO_WORKER)


def _by_table(fleet: Fleet | None) -> Finding:
    """Return the finding on workers that answer to nobody: their table alone tells of them."""
    if fleet is None:
        return ok(_UNASKED, Code.NO_WORKER)
    if not fleet.living:
        told = "and none that lives stands in their table: start one (celery -A yourapp worker)"
        return warn(f"{_UNASKED}, {told}", Code.NO_WORKER)
    return ok(f"{_UNASKED}: {_living(fleet)} in their table", Code.NO_WORKER)


def _living(fleet: Fleet) -> str:
    return counted(len(fleet.living), "living worker stands", "living workers stand")


def _lacking(names: list[str]) -> list[Finding]:
    if not names:
        return []
    level = error if SENDING.intersection(names) else warn
    told = f"task_queues has no {', '.join(names)}: a worker without -Q does not listen there"
    return [level(f"{told}; {_REMEDY}", Code.TASK_QUEUES)]


def beat_findings(runtime: Runtime) -> list[Finding]:
    """Return the finding on the last task of beat; none where the database does not tell."""
    try:
        return [beat_finding(runtime.database.read(lambda c: beat.age(c, runtime.database)))]
    except SQLAlchemyError:  # the findings on the database tell of it
        return []


def beat_finding(age: float | None) -> Finding:
    """Return the finding on a mark of beat that is so many seconds old; None: there is none."""
    if age is None:
        told = f"no task of beat was ever seen in this database: {_NO_BEAT}"
        return warn(told, Code.BEAT_UNSEEN)
    if age > UNSEEN:
        return error(f"no task of beat was seen for {age:.0f} s: {_NO_BEAT}", Code.BEAT_UNSEEN)
    return ok(f"beat, or cron, was seen {age:.0f} s ago (noted once a minute)", Code.BEAT_UNSEEN)
