"""`flask outbox health`: one word for a probe, and what to do where it is a bad one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from flask.cli import with_appcontext
from sqlalchemy.exc import SQLAlchemyError

from ...store.queries import reports
from ...store.queries.server_status import alerts
from .check_database import database_findings
from .check_fleet import fleet_findings
from .server_status import SUPPRESSED, printable, server_figures, standing_colour, standing_line
from .shell import SECONDS, as_json, current_runtime, read

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


@click.command()
@click.option("--max-age", type=SECONDS, help="Seconds; default: OUTBOX_HEALTH_AGE.")
@as_json
@with_appcontext
def health(max_age: float | None, as_json: bool) -> None:
    """Exit 1 when an email has been due or claimed for too long, or a server needs a person."""
    runtime = current_runtime()
    limit = runtime.settings.health_age if max_age is None else max_age
    try:
        figures = _figures(runtime, limit)
    except SQLAlchemyError:
        figures = {"healthy": False, "limit": limit, "problems": _faults(runtime)}
    if as_json:
        click.echo(json.dumps(figures))
    else:
        _tell(figures, suppressed=runtime.suppressed())
    if not figures["healthy"]:
        raise SystemExit(1)


def _figures(runtime: Runtime, limit: float) -> dict[str, Any]:
    due, claimed = read(reports.oldest_due), read(reports.oldest_claimed)
    servers = server_figures(runtime)["servers"]
    raised, late = alerts(servers), max(due, claimed) > limit
    return {
        "healthy": not (late or raised),
        "oldest_due_seconds": due,
        "oldest_claimed_seconds": claimed,
        "limit": limit,
        "alerts": raised,
        "servers": servers,
        "problems": _nobody(runtime) if late else [],
    }


def _tell(figures: dict[str, Any], *, suppressed: bool) -> None:
    limit = figures["limit"]
    if "oldest_due_seconds" in figures:
        age, claimed = figures["oldest_due_seconds"], figures["oldest_claimed_seconds"]
        click.echo(f"the oldest due email has waited {age:.1f} s (limit {limit:.0f} s)")
        if claimed > limit:
            click.secho(f"an email stands claimed and has waited {claimed:.1f} s", fg="red")
    if suppressed:
        click.echo(SUPPRESSED)
    for standing in figures.get("servers", ()):
        click.secho(standing_line(standing), fg=standing_colour(standing))
    for problem in figures["problems"]:
        click.secho(printable(problem), fg="red")


def _faults(runtime: Runtime) -> list[str]:
    """Return what is wrong with the database."""
    return [one.text for one in database_findings(runtime) if one.level == "error"]


def _nobody(runtime: Runtime) -> list[str]:
    """Return why nobody takes the emails that wait, where the workers tell."""
    app = runtime.find_celery()
    if app is None or runtime.suppressed():
        return []
    return [one.text for one in fleet_findings(app) if one.level != "ok"]
