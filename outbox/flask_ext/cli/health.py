"""`flask outbox health`: an exit code for a probe."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from ...domain.counted import counted
from ..management.results import Health
from ..management.server_lines import SUPPRESSED, printable, server_colour, server_line
from .printing.json_output import print_json
from .shell import SECONDS, as_json, current_outbox, current_runtime
from .silence import bounded


@click.command()
@click.option("--max-age", type=SECONDS, help="Seconds; default: OUTBOX_HEALTH_AGE.")
@as_json
@bounded
@with_appcontext
def health(max_age: float | None, as_json: bool) -> None:
    """Exit 1 when an email has been due or claimed for too long, or a server needs a person."""
    found = current_outbox().health(max_age)
    if as_json:
        print_json(found)
    else:
        _tell(found, suppressed=current_runtime().sending_is_off())
    if not found.healthy:
        raise SystemExit(1)


def _tell(health: Health, *, suppressed: bool) -> None:
    limit, age, claimed = health.limit, health.oldest_due_seconds, health.oldest_claimed_seconds
    if age is not None:
        click.echo(f"the oldest due email has waited {age:.1f} s (limit {limit:.0f} s)")
    if health.stuck is not None:
        due = counted(health.due or 0, "email is", "emails are")
        stuck = counted(health.stuck, "has", "have")
        click.echo(f"{due} due, {health.claimed} claimed; {stuck} been either for too long")
    if claimed is not None and claimed > limit:
        click.secho(f"an email stands claimed and has waited {claimed:.1f} s", fg="red")
    if suppressed and SUPPRESSED not in health.problems:
        click.echo(SUPPRESSED)
    for server in health.servers:
        click.secho(server_line(server), fg=server_colour(server))
    for problem in health.problems:
        click.secho(printable(problem), fg="red")
    for warning in health.warnings:
        click.secho(printable(warning), fg="yellow")
