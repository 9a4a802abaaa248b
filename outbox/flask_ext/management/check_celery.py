"""Examines Celery's settings: beat's schedule, limits, acknowledgement."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ...worker.process import worker_limits
from .check_broker import broker_findings
from .check_fleet import NO_CELERY, beat_findings, fleet_findings
from .finding import Finding, error, ok, warn

if TYPE_CHECKING:
    from celery import Celery

    from ...worker.process.runtime import Runtime

AMQP = ("amqp", "pyamqp")
CELERYS_BEAT = "celery.beat:PersistentScheduler"
STEADY_BEAT = "outbox.celery_config:SteadyScheduler"
SCHEDULE = "take outbox.celery_config.beat_schedule(app.config)"


def celery_findings(runtime: Runtime) -> list[Finding]:
    """Return the findings on Celery, its broker and its workers."""
    app = runtime.find_celery()
    if app is None:
        return [error(NO_CELERY)]
    schedule = app.conf.beat_schedule or {}
    entries = {entry.get("task"): entry.get("schedule") for entry in schedule.values()}
    findings = [ok("a Celery app is configured")]
    if app.conf.task_always_eager:
        text = "task_always_eager is on: no worker sends. Each process sends after its own commits,"
        findings.append(warn(f"{text} and retries wait for the next one: for development only"))
    if "outbox.sweep" not in entries:
        findings.append(error(f"beat's schedule has no outbox.sweep: {SCHEDULE}"))
    elif _seconds(entries["outbox.sweep"]) != runtime.settings.sweep_interval:
        text = f"beat sweeps at another interval than OUTBOX_SWEEP_INTERVAL: {SCHEDULE}"
        findings.append(warn(text))
    if "outbox.purge" not in entries:
        findings.append(warn(f"beat's schedule has no outbox.purge: {SCHEDULE}"))
    if "outbox.sweep" in entries and app.conf.beat_scheduler == CELERYS_BEAT:
        text = f"beat_scheduler stops sweeping when a clock is set back: {STEADY_BEAT} does not"
        findings.append(warn(text))
    findings += [warn(text) for text in worker_limits.configured(runtime, app)]
    return [*findings, *_deliveries(app), *broker_findings(app), *_fleet(runtime, app)]


def _fleet(runtime: Runtime, app: Celery) -> list[Finding]:
    return [*beat_findings(runtime), *fleet_findings(app)]


def _seconds(schedule: object) -> object:
    """Return an interval in seconds; a schedule of another kind, such as a crontab, as it is."""
    return schedule.total_seconds() if isinstance(schedule, timedelta) else schedule


def _deliveries(app: Celery) -> list[Finding]:
    """Return the findings on settings that keep tasks waiting, or deliver them twice in vain."""
    late, amqp = app.conf.task_acks_late, str(app.conf.broker_read_url).startswith(AMQP)
    texts = []
    if amqp and not late:
        texts.append("task_acks_late is off: over AMQP a busy worker keeps tasks from a free one")
    if not amqp and not app.conf.get("worker_disable_prefetch"):
        texts.append("worker_disable_prefetch is off: a busy worker fetches a free one's tasks")
    if late and not amqp:
        texts.append("task_acks_late is on: with this broker it only makes tasks come twice")
    if app.conf.task_reject_on_worker_lost:
        texts.append("task_reject_on_worker_lost is on: it only makes tasks come twice")
    return [warn(text) for text in texts]
