"""The lines of `flask outbox progress` for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ....store.report_records import BatchDetails, Progress
from ....worker.why_waiting import until_rescue
from ...management.server_lines import printable
from .json_output import plain

_DOUBT = "  (not ended; those that ended in doubt are unknown)"


def progress_lines(found: Progress) -> Iterator[str]:
    """Return the lines: how many emails are in each status, what is in doubt, and each batch."""
    for status, count in plain(found.statuses).items():
        yield f"{status:<12}{count:>10}"
    yield f"{'in doubt now':<12}{found.in_doubt:>10}{_DOUBT if found.in_doubt else ''}"
    if found.next_due_seconds is not None:
        yield f"the next email is due in {found.next_due_seconds:.1f} s"
    for batch in found.batches:
        colour = "red" if batch.is_silent else None
        yield click.style(printable(_batch(batch)), fg=colour)


def _batch(batch: BatchDetails) -> str:
    told = f"{plain(batch.priority)} batch of {batch.emails}, {batch.sending} in the open window"
    if batch.worker is None:
        return f"{told}: no worker has started it; it goes back {until_rescue(batch)}"
    if batch.is_silent:
        return f"{told}: {batch.worker} is silent; its emails are rescued {until_rescue(batch)}"
    if batch.awaits_reply:
        return f"{told}: {batch.worker} waits for the server's reply to its content"
    return f"{told}: {batch.worker} has it; its lease runs {batch.lease_seconds:.0f} s"
