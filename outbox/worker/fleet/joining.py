"""Has each worker of the outbox, and each beat, keep its row while it runs."""

from __future__ import annotations

import atexit
from typing import Any

from celery.signals import worker_ready, worker_shutdown

from ...domain.fleet import EVERY
from ...store.connection.drivers import in_memory
from ..process.runtime import Runtime
from .inquiry import OURS
from .members import BeatMember, WorkerMember
from .presence import Presence

_KEPT = "_outbox_presence"
"""The attribute of Celery's worker that keeps its presence until it is ready."""


def join_as_worker(runtime: Runtime, worker: Any) -> None:
    """Have this worker keep a row from when it takes tasks until it is asked to stop.

    Call it before the pool forks: parent and children tell each other over shared memory how
    many slots there are, and when a task came last.
    A worker that listens to no queue of ours has no row, nor has one whose database is in memory.
    """
    if in_memory(runtime.database.engine):
        return
    member = WorkerMember(runtime, worker)
    if not set(OURS).intersection(worker.app.amqp.queues.consume_from):
        return
    runtime.slots.share(member.slots())
    runtime.last_tasks.share()
    vars(worker)[_KEPT] = Presence(runtime, member, every=EVERY)


def join_as_beat(runtime: Runtime, service: Any) -> None:
    """Have this beat keep a row from now on until it stops."""
    if in_memory(runtime.database.engine):
        return
    presence = Presence(runtime, BeatMember(runtime, service), every=EVERY)
    presence.start()
    atexit.register(presence.end)


def _begin(sender: Any, **_: Any) -> None:
    if presence := vars(sender.controller).get(_KEPT):
        presence.start()


def _end(sender: Any, **_: Any) -> None:
    if presence := vars(sender).get(_KEPT):
        presence.end()


worker_ready.connect(_begin)
worker_shutdown.connect(_end)
