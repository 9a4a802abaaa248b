"""Examines how the workers of our queues run: their command lines may differ from the settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from celery import Celery

from ....worker.fleet import prefetching
from ....worker.fleet.inquiry import OURS, NoAnswer, Running, running
from ....worker.process.runtime import Runtime
from ....worker.setup.worker_limits import too_few_connections
from .codes import Code
from .finding import Finding, error, warn

_TASKS = frozenset({"outbox.sweep", "outbox.send", "outbox.purge"})


def worker_findings(
    app: Celery, listened: Mapping[str, Collection[str]], runtime: Runtime | None
) -> list[Finding]:
    """Return what is wrong with the workers that listen to a queue of ours.

    Without `runtime` only what keeps emails from being sent is told.
    """
    names = [name for name, queues in listened.items() if set(OURS).intersection(queues)]
    try:
        asked = running(app, names) if names else {}
    except NoAnswer as silence:
        return [warn(f"workers: {silence}", Code.BROKER)]
    findings = [one for name, worker in asked.items() for one in _strangers(name, worker)]
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


def _strangers(name: str, worker: Running) -> list[Finding]:
    if worker.tasks >= _TASKS:
        return []
    told = f"{name} listens to our queues, and does not know our tasks, so it loses them"
    told += ": the module that its -A names must create your Flask app"
    return [error(told, Code.TASKS_UNKNOWN)]


def _fetching(name: str, worker: Running, option: str) -> list[Finding]:
    if not 0 < worker.concurrency < worker.prefetch:
        return []
    told = f"{name} takes {worker.prefetch} tasks at once and runs {worker.concurrency}"
    return [warn(f"{told}: others wait behind a busy task; start it with {option}", Code.PREFETCH)]
