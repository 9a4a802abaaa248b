"""`flask outbox figures`, `backlog` and `metrics`: what became of emails, and how many wait."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click
from flask.cli import with_appcontext

from ...domain.figures.figures import Figures
from ...domain.figures.spans import Period
from ...store.queries.standstill import MOST_COUNTED
from ...store.report_records import Backlog
from ..management.server_lines import printable
from .printing.json_output import plain
from .printing.result import print_result
from .shell import as_json, current_outbox, with_patience


@click.command()
@click.option(
    "--last",
    type=click.Choice([period.value for period in Period]),
    default=Period.HOUR.value,
    show_default=True,
)
@as_json
@with_patience
def figures(last: str, as_json: bool) -> None:
    """Show what became of the attempts of the last hour, day or week."""
    print_result(current_outbox().figures(last), _figures, as_json)


def _figures(found: Figures) -> Iterator[str]:
    yield f"attempts from {_minute(found.since)} to {_minute(found.until)} UTC"
    yield from (f"  {verdict:<12}{number:>10}" for verdict, number in found.verdicts.items())
    yield f"accepted            {found.accepted_a_second:.2f} a second"
    took = found.accepted_in
    for part, seconds in (("50 %", took.p50), ("95 %", took.p95), ("99 %", took.p99)):
        if seconds is not None:
            yield f"{part} of them within  {_seconds(seconds)} s of being due"
    for one in found.failures:
        server = one.server or "no server"
        told = f"  {one.verdict:<12}{one.attempts:>10}  {one.code or 'no reply'} of {server}"
        yield printable(told)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.1f}"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


@click.command()
@as_json
@with_patience
def backlog(as_json: bool) -> None:
    """Show how many emails wait and are in flight, counted up to 10,000."""
    print_result(current_outbox().backlog(), _backlog, as_json)


def _backlog(found: Backlog) -> Iterator[str]:
    numbers = plain(found)
    oldest = numbers.pop("oldest_due_seconds")
    yield from (f"{name:<12}{_bounded(number):>10}" for name, number in numbers.items())
    yield f"oldest due email    {oldest:.1f} s"


def _bounded(number: int) -> str:
    return f"{MOST_COUNTED:,}+" if number >= MOST_COUNTED else f"{number:,}"


@click.command()
@with_appcontext
def metrics() -> None:
    """Print the metrics for Prometheus, such as for its node exporter's text files."""
    click.echo(current_outbox().metrics(), nl=False)
