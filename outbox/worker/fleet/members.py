"""What a worker and a beat say of themselves in their rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from ...domain.config.agreement import setting_digests
from ...domain.fleet import BEAT, SILENT
from ...domain.version import __version__
from ...store.schema.fleet_tables import NAME_LENGTH, POOL_LENGTH, VERSION_LENGTH
from ..broker.queues import SEND_QUEUES
from ..process.own_process import host, start_of, this_boot
from ..process.runtime import Runtime

_SENDING = frozenset(SEND_QUEUES.values())


class WorkerMember:
    """A Celery worker. `worker` is its parent process, as Celery's signals give it."""

    def __init__(self, runtime: Runtime, worker: Any) -> None:
        self._runtime = runtime
        self._worker = worker

    def row(self) -> dict[str, Any]:
        """Return who it is, its version and its settings."""
        module = self._worker.pool_cls.__module__
        pool = module.removeprefix("celery.concurrency.")
        return _row(self._runtime, self._worker.hostname, pool)

    def changes(self) -> dict[str, Any]:
        """Return its queues and size, which Celery's remote control may change, and its tasks."""
        return {
            "queues": " ".join(sorted(self._queues())),
            "concurrency": self._concurrency(),
            "slots": self.slots(),
            "tasks": len(self._worker.state.active_requests),
        }

    def is_well(self) -> bool:
        """Return True: what its tasks do is seen by what becomes of the emails."""
        return True

    def children(self) -> Iterable[int]:
        """Return the ids of its pool's processes; a pool of threads has none but this one."""
        pool: Any = getattr(self._worker, "pool", None)
        return pool.info.get("processes", ()) if pool and pool.active else ()

    def slots(self) -> int:
        """Return how many batches it can have in flight; 0 if it listens to no queue of batches."""
        return self._concurrency() if _SENDING.intersection(self._queues()) else 0

    def _queues(self) -> list[str]:
        return list(self._worker.app.amqp.queues.consume_from)

    def _concurrency(self) -> int:
        """Return the most tasks that it runs at once; with --autoscale that is its upper bound."""
        pool: Any = getattr(self._worker, "pool", None)  # begun after the worker's first signal
        now = pool.num_processes if pool and pool.active else self._worker.concurrency
        return max(int(now), int(getattr(self._worker, "max_concurrency", None) or 0))


class BeatMember:
    """A Celery beat. `service` is what Celery's signal gives."""

    def __init__(self, runtime: Runtime, service: Any) -> None:
        self._runtime = runtime
        self._scheduler = service.scheduler

    def row(self) -> dict[str, Any]:
        """Return who it is, its version and its settings."""
        return _row(self._runtime, f"beat@{host()}", BEAT)

    def changes(self) -> dict[str, Any]:
        """Return what a worker has, and beat has not."""
        return {"queues": "", "concurrency": 0, "slots": 0, "tasks": 0}

    def is_well(self) -> bool:
        """Return whether it ticks: beat publishes in its only thread, and a broker may be silent.

        Only our own scheduler tells. For another one it returns True.
        """
        late = getattr(self._scheduler, "seconds_late", float)
        return bool(late() < SILENT)

    def children(self) -> Iterable[int]:
        """Return none: a beat runs no batches."""
        return ()


def _row(runtime: Runtime, name: str, pool: str) -> dict[str, Any]:
    agreed = setting_digests(runtime.settings, runtime.servers, suppressed=runtime.sending_is_off())
    pid = os.getpid()
    return {
        "name": name[:NAME_LENGTH],
        "host": host()[:NAME_LENGTH],
        "boot": this_boot(),
        "pid": pid,
        "process_start": start_of(pid),
        "pool": pool[:POOL_LENGTH],
        "version": __version__[:VERSION_LENGTH],
        "settings": json.dumps(agreed),
    }
