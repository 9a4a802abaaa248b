"""The three Celery tasks. Their arguments are tokens; what they do is elsewhere."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from celery import Task, shared_task

from ..store.purge import purge as purge_chunk
from ..store.rows import Claim
from . import shutdown
from .relay import relay
from .runtime import Runtime, runtime_of
from .sweep import publish
from .sweep import sweep as run_sweep

_log = logging.getLogger("outbox")


@shared_task(bind=True, name="outbox.sweep", ignore_result=True)
def sweep(self: Task[Any, Any]) -> None:
    """Claim what is due and fan it out; what fits in one window goes at once."""
    runtime = runtime_of(self.app)
    made: list[Claim] = []
    run_sweep(runtime, made.append, runtime.nudge.wake)
    if len(made) == 1 and made[0].mails <= runtime.settings.window:
        _send_on(runtime, made[0].token)  # without a second trip through the broker
    else:
        for claim in made:
            publish(runtime)(claim)


@shared_task(bind=True, name="outbox.send", ignore_result=True)
def send(self: Task[Any, Any], token: str) -> None:
    """Send the batch of this token; then sweep on, so that the drain is not paced by beat."""
    runtime = runtime_of(self.app)
    try:
        claimed = UUID(token)
    except (ValueError, AttributeError, TypeError):
        _log.warning("outbox: a send task without a token was refused")
        return
    _send_on(runtime, claimed)


def _send_on(runtime: Runtime, token: UUID) -> None:
    if relay(runtime, token) and not shutdown.requested():
        run_sweep(runtime, publish(runtime), runtime.nudge.wake)


@shared_task(bind=True, name="outbox.purge", ignore_result=True)
def purge(self: Task[Any, Any]) -> None:
    """Remove finished mails that are past their retention."""
    runtime = runtime_of(self.app)
    while purge_chunk(runtime.database, older_than=runtime.settings.retention):
        if shutdown.requested():
            return
