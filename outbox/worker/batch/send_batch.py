"""The send task's work: start a batch's lease |> send the batch |> end the lease."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from uuid import UUID

from ...domain.counted import counted
from ...store.control import lease
from ...store.control.counter import bump
from ...store.queries.claimed_batch import without_recipients
from ...store.records import Batch
from ...store.transitions.start import start
from ..leases.heartbeat import Heartbeat
from ..leases.in_hand import take_in_hand
from ..process import shutdown
from ..process.renewable import renewable
from ..process.retry_writes import until_written
from ..process.runtime import Runtime
from ..together.calm import ASK_EVERY
from .batch_end import BatchEnd, BatchReport
from .batch_results import Results
from .cleanup import Cleanup
from .sending import Sending
from .server_choice import ServerChoice
from .throttle import return_relaned

_log = logging.getLogger("outbox")

CUT_OFF_PAUSE = 1.0
"""Seconds for which a process takes no other task where another host must send its batch."""

STALE = "stale_tasks"
"""The counter of send tasks that came twice, late or forged."""


def send_batch(runtime: Runtime, token: UUID) -> BatchReport:
    """Send the batch of this token; return why it ended.

    If a halt, a shutdown or a lost lease ends it early, emails that were not sent go back
    uncharged. A probe without emails only opens a session.
    """
    if not runtime.sending_is_off() and runtime.instance.refusal():
        return BatchReport(BatchEnd.COPY)  # a task of the original's, or of a time before a restore
    runtime.database.refuse_busy()  # a wait for the caller's transaction would never end
    with take_in_hand(token) as is_free, renewable(runtime.heartbeats) as is_renewable:
        if not is_renewable:
            until_written(lambda: lease.decline(runtime.database, token))
            return BatchReport(BatchEnd.NO_THREAD)
        began, batch = _start(runtime, token) if is_free else (0.0, None)
        if batch is None:
            runtime.database.run(lambda connection: bump(connection, runtime.database, STALE))
            _log.info("outbox: a send task found no lease to start and changed nothing")
            return BatchReport(BatchEnd.STALE)
        runtime.turns.note([(batch.lane, batch.priority)])  # another process may have claimed it
        return _send(runtime, token, batch, began)


def _start(runtime: Runtime, token: UUID) -> tuple[float, Batch | None]:
    """Start the lease; return the time on our clock before it was asked for, and the batch.

    The commit of a start that has failed may have come through, with its reply lost.
    """
    term, worker, process = runtime.settings.lease, runtime.worker, runtime.process
    asked: list[float] = []

    def write() -> Batch | None:
        again = bool(asked)
        asked.append(runtime.clock())
        return start(
            runtime.database, token, lease_seconds=term, worker=worker, process=process, again=again
        )

    batch = until_written(write)
    return asked[-1], batch


def _send(runtime: Runtime, token: UUID, batch: Batch, began: float) -> BatchReport:
    """Send a started batch and end its lease."""
    with _heartbeat(runtime, token, began) as heartbeat:
        progress, is_told = heartbeat.progress, heartbeat.is_told
        results = Results(runtime, token, progress=progress, is_told=is_told)
        cleanup = Cleanup(runtime, token, heartbeat, results)
        with cleanup.on_error():
            batch = _with_lacking(runtime, token, return_relaned(runtime, token, batch))
            with ServerChoice(
                runtime,
                token,
                batch,
                progress=heartbeat.progress,
                goes_on=heartbeat.goes_on,
                stays=heartbeat.stays,
            ) as choice:
                sending = Sending(runtime, token, batch, choice, heartbeat, results, cleanup)
                with cleanup.on_error():  # before QUIT is sent: the process may end meanwhile
                    # Emails of an app that sends nothing, claimed by a process that sends, go back.
                    end = BatchEnd.SENDING_OFF if runtime.sending_is_off() else sending.run()
            # Only now, as the end of the lease frees a place under the server's connection cap.
            settled = sending.finish()
    if end is BatchEnd.CUT_OFF:
        _pause()
    _log.debug("outbox: a batch ended: %s, %s settled", end, counted(settled, "email"))
    return BatchReport(end, settled, results.sent)


def _with_lacking(runtime: Runtime, token: UUID, batch: Batch) -> Batch:
    """Return the batch with the emails to several whose recipients' rows are gone: they fail.

    Where only a replica did not have these rows yet, the email goes back when the batch has ended.
    """
    if not batch.lacking:
        return batch
    ids = [email.id for email in batch.lacking]
    ask = partial(without_recipients, database=runtime.database, token=token, ids=ids)
    lost = until_written(lambda: runtime.database.run(ask))
    lacking = [email for email in batch.lacking if email.id in lost]
    return replace(batch, emails=(*batch.emails, *lacking))


def _pause() -> None:
    """Take no other task for a moment: this process would have the next one, and return that too.

    A shutdown ends it.
    """
    for _ in range(round(CUT_OFF_PAUSE / ASK_EVERY)):
        if shutdown.requested():
            return
        time.sleep(ASK_EVERY)


def _heartbeat(runtime: Runtime, token: UUID, began: float) -> Heartbeat:
    settings = runtime.settings
    return Heartbeat(
        runtime.heartbeats,
        token,
        term=settings.lease,
        patience=settings.dot_timeout + settings.command_timeout,
        began=began,
        clock=runtime.clock,
    )
