"""Examines how the workers of our queues run: their command lines may differ from the settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from celery import Celery

from ....worker.broker.queues import PURGE_INTERVAL
from ....worker.fleet import prefetching
from ....worker.fleet.inquiry import OURS, SENDING, NoAnswer, Running, running
from ....worker.process.runtime import Runtime
from ....worker.setup.pairing import NO_FLASK_APP
from ....worker.setup.worker_limits import too_few_connections
from ..results import Fleet
from .codes import Code
from .finding import Finding, error, warn

_ABSENT = (
    "{names} listens to our queues, and does not stand in the table of the workers: its -A must"
    " name a module that creates this Flask app; give it this process's database, and this version"
    " (after a failover it may be with the old primary: stop that); outbox_worker must be writable"
)
_TASKS = frozenset({"outbox.sweep", "outbox.send", "outbox.purge"})


def worker_findings(
    app: Celery,
    listened: Mapping[str, Collection[str]],
    runtime: Runtime | None,
    fleet: Fleet | None,
    *,
    is_served: bool,
) -> list[Finding]:
    """Return what is wrong with the workers that listen to a queue of ours.

    Without `runtime` only what keeps emails from being sent is told. `fleet` is what their table
    says, and `is_served` as below.
    """
    names = [name for name, queues in listened.items() if set(OURS).intersection(queues)]
    try:
        asked = running(app, names) if names else {}
    except NoAnswer as silence:
        silent = warn(f"workers: {silence}", Code.BROKER)
        return [silent, *_absent(listened, {}, fleet, is_served=is_served)]
    findings = _absent(listened, asked, fleet, is_served=is_served)
    for name, worker in asked.items():
        findings += _strangers(name, worker, is_served=is_served)
    if runtime is not None:
        for name, worker in asked.items():
            few = too_few_connections(runtime, worker.pool, worker.concurrency)
            findings += [warn(f"{name}: {text}", Code.LIMITS) for text in few]
            findings += _fetching(name, worker, prefetching.option(app))
    return findings


def fetching_by_settings(app: Celery) -> list[Finding]:
    """Return whether workers fetch more than they run, as far as the settings tell."""
    setting = prefetching.unset(app)
    if not setting:
        return []
    told = f"{setting}: a busy worker fetches a free one's tasks; set it, or start the workers"
    return [warn(f"{told} of our queues with {prefetching.option(app)}", Code.PREFETCH)]


def _strangers(name: str, worker: Running, *, is_served: bool) -> list[Finding]:
    if not worker.tasks >= _TASKS:
        told = f"{name} listens to our queues, and does not know our tasks, so it loses them"
        told += ": the module that its -A names must create your Flask app"
        return [error(told, Code.TASKS_UNKNOWN)]
    if not worker.has_flask_app and not is_served:
        told = f"{name} listens to our queues, and each of our tasks fails there: {NO_FLASK_APP}"
        return [error(told, Code.NO_FLASK_APP)]
    return []


def is_served(fleet: Fleet) -> bool:
    """Return whether tasks are done although no worker of this app stands in the table.

    A worker answers for its first process. Those of its pool may each have made a Flask app.
    """
    if fleet.living or fleet.is_still or fleet.task_seconds is None:
        return False
    return fleet.task_seconds < 2 * PURGE_INTERVAL  # where nobody knows how often a sweep comes


def _absent(
    listened: Mapping[str, Collection[str]],
    asked: Mapping[str, Running],
    fleet: Fleet | None,
    *,
    is_served: bool,
) -> list[Finding]:
    """Return the finding on workers of our queues that do not stand in their table.

    Those that cannot stand there, and are told of for that, are left out.
    """
    if fleet is None:
        return []
    names = {name for name, queues in listened.items() if SENDING.intersection(queues)}
    names -= {one.name for one in fleet.living}
    names -= {
        name for name, worker in asked.items() if _strangers(name, worker, is_served=is_served)
    }
    told = _ABSENT.format(names=", ".join(sorted(names)))
    return [warn(told, Code.UNLISTED)] if names else []


def _fetching(name: str, worker: Running, option: str) -> list[Finding]:
    if not 0 < worker.concurrency < worker.prefetch:
        return []
    told = f"{name} takes {worker.prefetch} tasks at once and runs {worker.concurrency}"
    return [warn(f"{told}: others wait behind a busy task; start it with {option}", Code.PREFETCH)]
