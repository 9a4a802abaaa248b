"""`flask outbox workers`: who is there to send, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ...domain.counted import counted
from ...domain.fleet import WorkerState
from ..management.results import Fleet, WorkerDetails
from ..management.server_lines import printable
from .printing.result import print_result
from .shell import as_json, current_outbox, with_patience


@click.command()
@as_json
@with_patience
def workers(as_json: bool) -> None:
    """Show the workers and beat: living, idle, dead, and of other versions or settings."""
    print_result(current_outbox().workers(), _lines, as_json)


_COLOURS = {
    WorkerState.BUSY: "green",
    WorkerState.IDLE: "green",
    WorkerState.SILENT: "yellow",
    WorkerState.DEAD: "red",
    WorkerState.STOPPED: None,
}


def _lines(fleet: Fleet) -> Iterator[str]:
    for line, colour in _coloured(fleet):
        yield click.style(printable(line), fg=colour)


def _coloured(fleet: Fleet) -> Iterator[tuple[str, str | None]]:
    living = counted(len(fleet.living), "living worker")
    yield f"{living}, {counted(fleet.slots, 'slot')}", None
    for one in (*fleet.workers, *fleet.beats):
        yield _line(one), _COLOURS[one.state]
    if fleet.beat_seconds is None:
        yield "no task of beat was ever seen", "yellow"
    else:
        yield f"a task of beat was seen {fleet.beat_seconds:.0f} s ago (noted once a minute)", None
    yield from ((problem, "red") for problem in fleet.problems)


def _line(one: WorkerDetails) -> str:
    who = f"{one.state:<8} {one.name}  pid {one.pid}, {one.version}"
    seen = f"{who}, seen {one.seen_seconds:.0f} s ago"
    if not one.concurrency:
        return seen
    at_once = f"{one.pool} {one.tasks}/{one.concurrency}"
    return f"{seen}, {at_once}, {','.join(one.queues)}"
