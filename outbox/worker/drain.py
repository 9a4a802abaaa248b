"""Sends without Celery, for cron and scripts: sweeps and sends in this process."""

from __future__ import annotations

from collections.abc import Callable

from ..store.connection.error_codes import describe
from ..store.harmless_log import harmless_log
from ..store.records import Claim
from .batch.batch_end import BatchReport
from .batch.send_batch import send_batch
from .fold import fold_tallies
from .jobs import run_jobs
from .process.runtime import Runtime
from .process.shutdown import is_nobodys_fault
from .sweep import sweep

MOST_FAILED = 20
"""How many batches may fail before it gives up: where each one does, it would go on without end."""


def drain(
    runtime: Runtime,
    *,
    progress: Callable[[int], None] = lambda _: None,
    ended: Callable[[BatchReport], object] = lambda _: None,
    is_command: bool = False,
) -> int:
    """Send until no email is due that may be sent now; return how many emails were claimed.

    It may run beside workers, and does not touch the emails that they hold. It does the jobs, too.
    A batch that an error ends stops no other one: the first error is raised when all is done.
    An email that a batch gives back may be claimed, and counted, again. `ended` gets the report of
    each batch that no error ended.

    With `is_command` the process ends behind it, and nobody has asked it to: it waits longer for
    what is not recorded yet. Elsewhere a thread goes on with that.
    """
    is_asked = not is_command
    try:
        return _drain(runtime, progress, ended)
    except (KeyboardInterrupt, SystemExit):
        is_asked = True
        raise
    finally:  # after an error, too: the process may end now
        runtime.wait_for_writes(is_asked=is_asked)


def _drain(
    runtime: Runtime, progress: Callable[[int], None], ended: Callable[[BatchReport], object]
) -> int:
    total, failed = 0, list[Exception]()
    while True:
        claims: list[Claim] = []
        sweep(runtime, claims.append)
        has_jobs = run_jobs(runtime)
        if not claims:
            if has_jobs or runtime.has_rescued:
                continue
            break
        more = False
        for made in claims:
            more |= _send(runtime, made, failed, ended)
            total += made.emails
            progress(made.emails)
        fold_tallies(runtime)
        if not more:  # no server has room: to go on would only claim and give back without end
            while run_jobs(runtime):
                pass
            break
    if failed:
        raise failed[0]
    return total


def _send(
    runtime: Runtime,
    made: Claim,
    failed: list[Exception],
    ended: Callable[[BatchReport], object],
) -> bool:
    """Send a batch; return whether another sweep may bring more. Its error is added to `failed`."""
    try:
        report = send_batch(runtime, made.token)
    except Exception as error:
        if is_nobodys_fault(error):
            raise
        harmless_log.error("outbox: a batch ended with an error (%s)", describe(error))
        failed.append(error)
        return len(failed) < MOST_FAILED
    ended(report)
    return report.is_worth_a_sweep
