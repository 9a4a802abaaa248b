"""Sends without Celery, for cron and scripts: sweeps and sends in this process."""

from __future__ import annotations

from collections.abc import Callable

from ..store.records import Claim
from .batch.send_batch import send_batch
from .fold import fold_tallies
from .jobs import run_jobs
from .process.runtime import Runtime
from .sweep import sweep


def drain(runtime: Runtime, *, progress: Callable[[int], None] = lambda _: None) -> int:
    """Send until no email is due that may be sent now; return how many emails were claimed.

    It may run beside workers, and does not touch the emails that they hold. It does the jobs, too.
    """
    try:
        return _drain(runtime, progress)
    finally:  # after an error, too: the process may end now
        runtime.wait_for_writes()


def _drain(runtime: Runtime, progress: Callable[[int], None]) -> int:
    total = 0
    while True:
        claims: list[Claim] = []
        sweep(runtime, claims.append)
        has_jobs = run_jobs(runtime)
        if not claims:
            if has_jobs:
                continue
            break
        more = False
        for made in claims:
            more |= send_batch(runtime, made.token).is_worth_a_sweep
            total += made.emails
            progress(made.emails)
        fold_tallies(runtime)
        if not more:  # no server has room: to go on would only claim and give back without end
            while run_jobs(runtime):
                pass
            break
    return total
