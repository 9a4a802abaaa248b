"""Examines the Celery app's settings: what beat triggers, and what keeps our tasks waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery import Celery
from sqlalchemy.exc import SQLAlchemyError

from ....domain.errors import ConfigurationError
from ....worker.broker.own_task import annotated, uses_amqp
from ....worker.process.runtime import NO_CELERY, Runtime
from ....worker.setup import worker_limits
from ....worker.setup.additions import CELERYS_BEAT, STEADY_BEAT, accepts_ours, tasks_of
from ....worker.setup.green_pools import NO_EVENTLET, is_eventlet, is_gevent, waiting_driver
from ....worker.setup.pairing import runtime_of
from ....worker.setup.worker_start import SPAWNED
from ..results import Fleet
from ..workers import workers
from .broker import broker_findings
from .codes import Code
from .finding import Finding, error, ok, warn
from .fleet import beat_findings, fleet_findings
from .workers import is_served

SCHEDULE = (
    "call outbox.celery_config.configure(celery_app, flask_app), or take"
    " outbox.celery_config.beat_schedule(app.config)"
)


def celery_findings(runtime: Runtime) -> list[Finding]:
    """Return the findings on the Celery app that this outbox has, its broker and its workers."""
    app = runtime.find_celery()
    if app is None:
        return [error(f"{NO_CELERY}: only `flask outbox drain` sends", Code.CELERY)]
    fleet = _fleet(runtime)
    served = fleet is not None and is_served(fleet)
    return [
        *setup_findings(runtime, app),
        *broker_findings(app),
        *beat_findings(runtime),
        *fleet_findings(app, runtime, fleet, is_served=served),
    ]


def _fleet(runtime: Runtime) -> Fleet | None:
    """Return the fleet by its table; None where the database does not tell."""
    try:
        return workers(runtime)
    except SQLAlchemyError:  # the findings on the database tell of it
        return None


def setup_findings(runtime: Runtime, app: Celery) -> list[Finding]:
    """Return the findings on the Celery app's settings; nobody is asked for them."""
    try:
        runtime_of(app)
    except ConfigurationError as refusal:
        return [error(str(refusal), Code.CELERY)]
    limits = worker_limits.configured(runtime, app)
    pool = str(app.conf.worker_pool)
    limits += waiting_driver(runtime.database.engine) if is_gevent(pool) else []
    limits += [NO_EVENTLET] if is_eventlet(pool) else []
    if app.conf.get("worker_pool_start_method", "fork") != "fork":
        limits.append(SPAWNED)
    return [
        ok("a Celery app is configured", Code.CELERY),
        *_beat(runtime, app.conf),
        *(warn(text, Code.LIMITS) for text in limits),
        *_messages(app),
        *_deliveries(app),
    ]


def _beat(runtime: Runtime, conf: Any) -> list[Finding]:
    intervals = tasks_of(conf.beat_schedule or {})
    findings = []
    if "outbox.sweep" not in intervals:
        findings.append(
            error(f"beat's schedule has no outbox.sweep: {SCHEDULE}", Code.BEAT_SCHEDULE)
        )
    elif _seconds(intervals["outbox.sweep"]) != runtime.settings.sweep_interval:
        text = f"beat sweeps at another interval than OUTBOX_SWEEP_INTERVAL: {SCHEDULE}"
        findings.append(warn(text, Code.BEAT_SCHEDULE))
    if "outbox.purge" not in intervals:
        findings.append(
            warn(f"beat's schedule has no outbox.purge: {SCHEDULE}", Code.BEAT_SCHEDULE)
        )
    if "outbox.sweep" in intervals:
        findings += _scheduler(str(conf.beat_scheduler))
    return findings


def _seconds(schedule: object) -> object:
    """Return an interval in seconds; a schedule of another kind, such as a crontab, as it is."""
    found = getattr(schedule, "run_every", schedule)  # Celery's own class of intervals has it
    return found.total_seconds() if isinstance(found, timedelta) else found


def _scheduler(name: str) -> list[Finding]:
    if name == CELERYS_BEAT:
        text = f"beat_scheduler stops sweeping when a clock is set back: {STEADY_BEAT} does not"
        return [warn(text, Code.BEAT_SCHEDULER)]
    if name == STEADY_BEAT:
        return []
    told = f"beat_scheduler is {name}: it must take outbox.sweep out of beat_schedule"
    told += ", as RedBeat and django-celery-beat do; `health` sees if it does not"
    return [ok(told, Code.BEAT_SCHEDULER)]


def _messages(app: Celery) -> list[Finding]:
    findings = []
    accepted = app.conf.accept_content
    if accepted and not accepts_ours(accepted) and app.conf.task_serializer not in accepted:
        text = "accept_content has no json: workers refuse the outbox's messages"
        findings.append(error(text, Code.ACCEPT_CONTENT))
    default = app.conf.task_default_queue
    if default and app.conf.task_queues and default not in app.amqp.queues:
        told = f"task_default_queue is {default}, and task_queues has no such queue: a worker"
        remedy = f"take outbox.celery_config.queues({default!r}), or call configure"
        text = f"{told} without -Q does not run your own tasks; {remedy}"
        findings.append(warn(text, Code.DEFAULT_QUEUE))
    if app.conf.task_always_eager:
        text = "task_always_eager is on: no worker sends. Each process sends after its own commits,"
        text += " and retries wait for the next one: for development only"
        findings.append(warn(text, Code.EAGER))
    return findings


def _deliveries(app: Celery) -> list[Finding]:
    """Return what `task_annotations` say of our tasks that keeps them waiting, or repeats them."""
    said, amqp = annotated(app, app.tasks["outbox.send"]), uses_amqp(app)
    texts = []
    if amqp and not said.get("acks_late", True):
        texts.append("acks_late is off for outbox.send: a busy worker keeps tasks from a free one")
    if said.get("acks_late") and not amqp:
        texts.append("acks_late is on for outbox.send: with this broker tasks only come twice")
    if said.get("reject_on_worker_lost"):
        texts.append("reject_on_worker_lost is on for outbox.send: its tasks only come twice")
    return [warn(text, Code.ANNOTATIONS) for text in texts]
