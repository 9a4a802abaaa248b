"""`flask outbox check`: finds what is wrong before the first email is stuck."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from flask import current_app

from ...worker.process import worker_limits
from ..dropin.extensions import ways_round
from ..management.check_database import database_findings
from ..management.check_fleet import fleet_findings
from ..management.finding import Finding, error, ok, warn
from ..management.server_lines import SUPPRESSED, redirect_line

if TYPE_CHECKING:
    from celery import Celery

    from ...worker.process.runtime import Runtime

AMQP = ("amqp", "pyamqp")
CELERYS_BEAT = "celery.beat:PersistentScheduler"
STEADY_BEAT = "outbox.celery_config:SteadyScheduler"
SCHEDULE = "take outbox.celery_config.beat_schedule(app.config)"


def examine(runtime: Runtime) -> list[Finding]:
    """Return the findings on settings, database, Celery and its workers."""
    return [*_settings(runtime), *database_findings(runtime), *_celery(runtime)]


def _settings(runtime: Runtime) -> list[Finding]:
    names = ", ".join(server.name for server in runtime.servers)
    findings = [ok(f"settings are valid; emails go to {names}")]
    findings += [
        ok(f"route {route or 'default'}: {_over(runtime, route)}") for route in runtime.routes.names
    ]
    for server in runtime.servers:
        if server.security == "none":
            text = f"{server.name}: SMTP is not encrypted (MAIL_USE_TLS, or use_tls)"
            findings.append(warn(text))
        elif not server.tls_verify:
            findings.append(warn(f"{server.name}: TLS certificates are not verified"))
    findings += map(error, ways_round(current_app))
    if runtime.suppressed():
        findings.append(warn(SUPPRESSED))
    if runtime.settings.redirect_to:
        findings.append(warn(redirect_line(runtime.settings.redirect_to)))
    return findings


def _over(runtime: Runtime, route: str) -> str:
    return ", ".join(server.name for server in runtime.routes.servers_of(route))


def _celery(runtime: Runtime) -> list[Finding]:
    app = runtime.find_celery()
    if app is None:
        text = 'app.extensions["celery"] holds no Celery app: only `flask outbox drain` sends'
        return [error(text)]
    schedule = app.conf.beat_schedule or {}
    entries = {entry.get("task"): entry.get("schedule") for entry in schedule.values()}
    findings = [ok("a Celery app is configured")]
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
    return [*findings, *_deliveries(app), *fleet_findings(app)]


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
