"""The lines of `flask outbox stats` for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ....store.report_records import Stats
from ...management.server_lines import (
    SUPPRESSED,
    printable,
    redirect_line,
    server_colour,
    server_line,
)
from .json_output import plain


def stats_lines(stats: Stats) -> Iterator[str]:
    """Return the lines of the statistics: what there is, what waits, and what is wrong."""
    for line, style in _lines(stats):
        yield click.style(printable(line), **style)


def _lines(stats: Stats) -> Iterator[tuple[str, dict[str, Any]]]:
    for title, numbers in (("status", plain(stats.statuses)), ("due now", plain(stats.due))):
        yield title, {"bold": True}
        yield from ((f"  {name:<12}{count:>10}", {}) for name, count in numbers.items())
    yield f"oldest due email    {stats.oldest_due_seconds:.1f} s", {}
    yield f"batches in flight   {stats.batches_in_flight}", {}
    yield from ((limit, {}) for limit in _limits(stats))
    yield from ((f"paused: {scope}", {"fg": "yellow"}) for scope in plain(stats)["paused"])
    for server in stats.servers:
        yield server_line(server), {"fg": server_colour(server)}
    if stats.suppressed:
        yield SUPPRESSED, {"fg": "yellow"}
    if stats.redirect_to:
        yield redirect_line(stats.redirect_to), {"fg": "yellow"}
    if stats.counters:
        yield "ever since", {"bold": True}
    yield from ((f"  {name:<16}{value:>6}", {}) for name, value in stats.counters.items())


def _limits(stats: Stats) -> Iterator[str]:
    for lane, emails in stats.lanes.items():
        if lane:
            yield f"due in lane {lane}: {emails}"
    for rate in stats.rate_limited:
        yield f"{rate.bucket} is used up for {rate.opens_in:.1f} s"
