"""The three Celery tasks. Their only argument is a token; other modules do the work."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from celery import Task, shared_task
from sqlalchemy.exc import SQLAlchemyError

from ..domain.priority import Priority
from ..store.connection.error_codes import (
    describe,
    is_lock_timeout,
    is_missing_table,
    is_outage,
    is_serialization_failure,
    without_rows,
)
from ..store.connection.privileges import LACKS, lacks_privilege
from ..store.records import Claim
from .batch.send_batch import send_batch
from .beat_mark import note_beat, note_task
from .broker.own_task import OwnTask
from .broker.publisher import ORIGIN, OWN
from .broker.queue_length import Periodic
from .broker.queues import LOW_QUEUE, SEND_QUEUES, SWEEP_QUEUE
from .broker.strategy import CHECKED
from .drain import drain
from .fleet.inquiry import HAS_FLASK_APP
from .fold import fold_tallies
from .jobs import take_turn
from .origin import tell_if_foreign
from .process import shutdown
from .process.retry_writes import TOLD_EVERY
from .process.runtime import Runtime
from .purge import purge_briefly
from .setup.pairing import is_paired, runtime_of
from .sweep import publish
from .sweep import sweep as run_sweep

_log = logging.getLogger("outbox")


@contextmanager
def outage_in_a_line(task: Task[Any, Any]) -> Iterator[None]:
    """Log an outage in one line: a traceback each second tells no more. Other errors are raised.

    A task that fails so loses nothing: beat sweeps again, and a batch's lease runs out. Each line
    is told once a minute, and so are missing tables, which wait for a person. Celery logs what is
    raised, so it is raised without the database's own text, which may quote a row.
    """
    try:
        yield
    except SQLAlchemyError as error:
        if is_missing_table(error) and not _tells_again(task, "tell of missing tables"):
            return
        if not (is_outage(error) or lacks_privilege(error)):
            if (harmless := without_rows(error)) is not error:
                raise harmless from None
            raise
        line = f"outbox: {task.name} gave up, {_why(error)} ({describe(error)})"
        if _tells_again(task, line):
            _log.warning("%s", line)


def _why(error: SQLAlchemyError) -> str:
    """Return what a person has to look at: a lock and a conflict are no outage."""
    if lacks_privilege(error):
        return LACKS
    if is_lock_timeout(error):
        return "others hold a lock that it needs"
    if is_serialization_failure(error):
        return "other transactions came between: READ COMMITTED suits a worker's role"
    return "the database is away"


def _tells_again(task: Task[Any, Any], what: str) -> bool:
    """Return whether this process is to tell again what its tasks meet each second."""
    return runtime_of(task.app).seldom.is_due(what, TOLD_EVERY)


_OPTIONS: dict[str, Any] = {
    "bind": True,
    "ignore_result": True,
    "Strategy": CHECKED,
    HAS_FLASK_APP: property(lambda task: is_paired(task.app)),
}


@shared_task(name="outbox.sweep", base=Periodic, home=SWEEP_QUEUE, **_OPTIONS)
def sweep(self: Task[Any, Any]) -> int:
    """Claim due emails and publish send tasks; send a small or urgent claim in this task.

    Then it goes on with the jobs for a moment, and has another sweep follow if more is left.

    It returns how many emails it claimed, for Celery's log line.
    """
    with outage_in_a_line(self):
        runtime = runtime_of(self.app)
        note_task(runtime)
        if not self.request.get(OWN):
            note_beat(runtime)
        claimed = sweep_and_send(runtime)
        tell_if_foreign(runtime, self.request.get(ORIGIN))
        if runtime.has_jobs and take_turn(runtime):
            runtime.nudge.wake()
        return claimed
    return 0


@shared_task(name="outbox.send", base=OwnTask, home=SEND_QUEUES[Priority.NORMAL], **_OPTIONS)
def send(self: Task[Any, Any], token: str) -> None:
    """Send the batch of this token; then sweep, so that beat does not limit the throughput."""
    runtime = runtime_of(self.app)
    try:
        claimed = UUID(token)
    except (ValueError, AttributeError, TypeError):
        _log.warning("outbox: a send task without a valid token was refused")
        return
    with outage_in_a_line(self):
        note_task(runtime)
        begun = runtime.clock()
        report = send_batch(runtime, claimed)
        tell_if_foreign(runtime, self.request.get(ORIGIN))
        if report.is_worth_a_sweep and not shutdown.requested():
            sweep_and_send(runtime, since=begun)


def sweep_and_send(runtime: Runtime, *, since: float | None = None) -> int:
    """Sweep and send as `_claim_and_send` does; then sum the figures up, which no email awaits.

    `since`: when the task began to send emails, if it has sent some already. If that took long, a
    small claim goes to another task: two slow emails would take longer than `needed_seconds`.
    """
    spent = 0.0 if since is None else runtime.clock() - since
    claimed = _claim_and_send(runtime, keeps=spent <= runtime.settings.batch_seconds)
    fold_tallies(runtime, is_idle=not claimed and since is None)
    return claimed


def _claim_and_send(runtime: Runtime, *, keeps: bool) -> int:
    """Sweep; publish the claims, but with `keeps` send a small one here, not over the broker.

    Only one is sent here: a task that never ended would hold up the warm shutdown. But with
    `task_always_eager` no worker would take the others, so all of them are sent here. It returns
    how many emails it claimed.
    """
    if runtime.is_eager:
        return drain(runtime)
    claimed, small = _sweep_and_publish(runtime, keeps=keeps)
    if small is None:
        return claimed
    report = send_batch(runtime, small.token)
    if report.is_worth_a_sweep and not shutdown.requested():
        claimed += _sweep_and_publish(runtime, keeps=False)[0]
    return claimed


def _sweep_and_publish(runtime: Runtime, *, keeps: bool) -> tuple[int, Claim | None]:
    """Sweep, or have the thread that does so go round again; publish the claims.

    Return how many emails were claimed. With `keeps` return a small claim, too, which is not
    published.
    """
    claimed, kept = 0, None
    for _ in runtime.rounds:
        made: list[Claim] = []
        claimed += run_sweep(runtime, made.append, runtime.nudge.wake)
        kept = _at_once(made, runtime.settings.window) if keeps else None
        for claim in made:
            if claim is not kept:
                publish(runtime)(claim)
        if kept is not None:
            break
    if kept is not None and runtime.rounds.is_asked:  # this thread sends first, which takes long
        runtime.nudge.wake()
    return claimed, kept


def _at_once(made: Sequence[Claim], window: int) -> Claim | None:
    """Return the small claim to send in this process, if it is urgent or the only one; or None."""
    # A probe may wait long for its server, and a sweep must not wait for a probe.
    small = [claim for claim in made if claim.emails <= window and not claim.is_probe]
    urgent = [claim for claim in small if claim.priority is Priority.URGENT]
    return next(iter(urgent or (small if len(made) == 1 else ())), None)


@shared_task(name="outbox.purge", base=Periodic, home=LOW_QUEUE, **_OPTIONS)
def purge(self: Task[Any, Any]) -> None:
    """Remove finished emails that are past their retention, for a few seconds."""
    with outage_in_a_line(self):
        runtime = runtime_of(self.app)
        note_beat(runtime)  # where sweeps wait all the time, beat publishes no other
        purge_briefly(runtime)
