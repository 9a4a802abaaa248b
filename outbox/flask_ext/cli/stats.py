"""`flask outbox stats`, line by line for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from .server_status import SUPPRESSED, printable, redirect_line, standing_colour, standing_line


def stats_lines(figures: dict[str, Any]) -> Iterator[str]:
    """Return the lines of the statistics: what there is, what waits, and what is wrong."""
    for line, style in _lines(figures):
        yield click.style(printable(line), **style)


def _lines(figures: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for title, numbers in (("status", figures["statuses"]), ("due now", figures["due"])):
        yield title, {"bold": True}
        yield from ((f"  {name:<12}{count:>10}", {}) for name, count in numbers.items())
    yield f"oldest due email    {figures['oldest_due_seconds']:.1f} s", {}
    yield f"batches in flight   {figures['batches_in_flight']}", {}
    yield from ((limit, {}) for limit in _limits(figures))
    yield from ((f"paused: {scope}", {"fg": "yellow"}) for scope in figures["paused"])
    for standing in figures["servers"]:
        yield standing_line(standing), {"fg": standing_colour(standing)}
    if figures["suppressed"]:
        yield SUPPRESSED, {"fg": "yellow"}
    if figures["redirect_to"]:
        yield redirect_line(figures["redirect_to"]), {"fg": "yellow"}
    yield from ((f"{name:<20}{value}", {}) for name, value in figures["counters"].items())


def _limits(figures: dict[str, Any]) -> Iterator[str]:
    for lane, mails in figures["lanes"].items():
        if lane:
            yield f"due in lane {lane}: {mails}"
    for bucket in figures["rate_limited"]:
        yield f"{bucket['bucket']} is used up for {bucket['opens_in']:.1f} s"
