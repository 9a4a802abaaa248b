"""`flask outbox check`: what an operator should know before the first mail is stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sqlalchemy.exc import SQLAlchemyError

from ..store.schema import Schema, found, narrow, weakened
from ..store.standing import alerts
from ..store.version import VERSION
from .standing import redirect_line, server_figures, standing_line

if TYPE_CHECKING:
    from celery import Celery

    from ..worker.runtime import Runtime

AMQP = ("amqp", "pyamqp")
CELERYS_BEAT = "celery.beat:PersistentScheduler"
STEADY_BEAT = "outbox.worker.beat:SteadyScheduler"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was examined."""

    level: Literal["ok", "warn", "error"]
    text: str


def examine(runtime: Runtime) -> list[Finding]:
    """Return the findings on settings, schema, server and Celery."""
    return [*_settings(runtime), *_schema(runtime), *_celery(runtime)]


def _settings(runtime: Runtime) -> list[Finding]:
    names = ", ".join(server.name for server in runtime.servers)
    findings = [Finding(level="ok", text=f"settings are valid; mails go to {names}")]
    findings += [
        Finding(level="ok", text=f"route {route or 'default'}: {_over(runtime, route)}")
        for route in runtime.routes.names
    ]
    for server in runtime.servers:
        if server.security == "none":
            text = f"{server.name}: SMTP is not encrypted (MAIL_USE_TLS, or use_tls)"
            findings.append(Finding(level="warn", text=text))
        elif not server.tls_verify:
            text = f"{server.name}: TLS certificates are not verified"
            findings.append(Finding(level="warn", text=text))
    if runtime.settings.redirect_to:
        findings.append(Finding(level="warn", text=redirect_line(runtime.settings.redirect_to)))
    return findings


def _over(runtime: Runtime, route: str) -> str:
    return ", ".join(server.name for server in runtime.routes.servers_of(route))


def _schema(runtime: Runtime) -> list[Finding]:
    try:
        schema = found(runtime.database)
        weak = weakened(runtime.database)
        limits = narrow(runtime.database, runtime.settings.max_size)
        servers = server_figures(runtime)["servers"]
    except SQLAlchemyError as error:
        return [Finding(level="error", text=f"the database: {type(error).__name__}")]
    findings = _version(schema)
    findings += [Finding(level="warn", text=f"{text}: it can forget a mail") for text in weak]
    findings += [Finding(level="warn", text=f"{text}: a large mail fails") for text in limits]
    urgent = alerts(servers)
    findings += [
        Finding(level="error" if one in urgent else "warn", text=standing_line(one))
        for one in servers
        if one["since"]
    ]
    return findings


def _version(schema: Schema) -> list[Finding]:
    """Compare by number, and by what is there: a number alone would say nothing of a table lost."""
    findings = [Finding(level="error", text=f"schema: {text}") for text in schema.missing]
    findings += [
        Finding(
            level="error", text=f"schema: {name} must be filled, and this code does not know it"
        )
        for name in schema.demanded
    ]
    versions = f"the database's schema is version {schema.version}, the code's {VERSION}"
    if schema.version < VERSION:
        text = f"{versions}: the database is older, run your migrations"
        findings.append(Finding(level="error", text=text))
    elif schema.version > VERSION:
        text = f"{versions}: the code is older, roll it forward when you can"
        findings.append(Finding(level="warn", text=text))
    elif not findings:
        findings.append(Finding(level="ok", text=f"the schema is complete: version {VERSION}"))
    return findings


def _celery(runtime: Runtime) -> list[Finding]:
    app = runtime.find_celery()
    if app is None:
        text = 'app.extensions["celery"] holds no Celery app: only `flask outbox drain` sends'
        return [Finding(level="error", text=text)]
    entries = {entry.get("task") for entry in (app.conf.beat_schedule or {}).values()}
    findings = [Finding(level="ok", text="a Celery app is there")]
    if "outbox.sweep" not in entries:
        findings.append(Finding(level="error", text="beat's schedule has no outbox.sweep"))
    if "outbox.purge" not in entries:
        findings.append(Finding(level="warn", text="beat's schedule has no outbox.purge"))
    if "outbox.sweep" in entries and app.conf.beat_scheduler == CELERYS_BEAT:
        text = f"beat_scheduler stands still while a clock is set back: {STEADY_BEAT} does not"
        findings.append(Finding(level="warn", text=text))
    return findings + _deliveries(app)


def _deliveries(app: Celery) -> list[Finding]:
    """Tell what keeps tasks waiting in a busy worker, or makes them come twice in vain."""
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
    return [Finding(level="warn", text=text) for text in texts]
