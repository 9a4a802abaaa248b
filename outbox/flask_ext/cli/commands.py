"""The `flask outbox` commands. Exit codes: 0 done, 1 a check failed, 2 a wrong call."""

from __future__ import annotations

import json

import click
from flask.cli import with_appcontext

from ...domain.config.enqueue_options import MAX_TAG
from ...domain.delivery.status import Status
from ...domain.errors import InvalidMessage
from ...domain.header.address import check_address
from ...domain.priority import Priority
from ...store.control import pause as pauses
from ...store.control import suppression
from ...store.queries import reports
from ...worker.drain import drain as run_drain
from ...worker.sweep import publish
from ...worker.sweep import sweep as run_sweep
from .bulk_commands import cancel, purge, resolve, retry
from .check import examine
from .email_lines import list_line, mail_lines
from .health import health
from .server_status import SUPPRESSED, printable, server_figures, standing_line
from .shell import EMAIL_ID, as_json, current_runtime, read, text, write
from .stats import stats_lines

commands = click.Group("outbox", help="See, send and mend the emails of the outbox.")
"""Added to the app's own commands by `Outbox.init_app`."""

for each in (retry, resolve, cancel, purge, health):
    commands.add_command(each)

MAX_REASON = 200
_SCOPES = click.Choice(["all", *(priority.name.lower() for priority in Priority)])


def _priority(scope: str) -> Priority | None:
    return None if scope == pauses.EVERYTHING else Priority.of(scope)


@commands.command()
@as_json
@with_appcontext
def stats(as_json: bool) -> None:
    """Show how many emails there are, what waits, and what is wrong."""
    figures = read(reports.stats) | server_figures(current_runtime())
    if as_json:
        click.echo(json.dumps(figures))
        return
    for line in stats_lines(figures):
        click.echo(line)


@commands.command("list")
@click.option("--status", type=click.Choice([status.value for status in Status]))
@click.option("--tag", callback=text(MAX_TAG))
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@as_json
@with_appcontext
def list_(status: str | None, tag: str | None, limit: int, as_json: bool) -> None:
    """List the newest emails."""
    wanted = Status(status) if status else None
    mails = read(reports.listing, status=wanted, tag=tag, limit=limit)
    if as_json:
        click.echo(json.dumps(mails))
        return
    for mail in mails:
        click.echo(list_line(mail))


@commands.command()
@click.argument("id", type=EMAIL_ID)
@as_json
@with_appcontext
def show(id: int, as_json: bool) -> None:  # noqa: A002
    """Show one email: its recipients and every attempt."""
    mail = read(reports.detail, id)
    if mail is None:
        raise click.ClickException(f"there is no email {id}")
    if as_json:
        click.echo(json.dumps(mail))
        return
    for line in mail_lines(mail):
        click.echo(line)


@commands.command()
@with_appcontext
def sweep() -> None:
    """Claim what is due and hand it to the workers: beat's stand-in, for cron."""
    runtime = current_runtime()
    click.echo(f"{run_sweep(runtime, publish(runtime))} emails handed out")
    if runtime.suppressed():
        click.echo(SUPPRESSED)


@commands.command()
@with_appcontext
def drain() -> None:
    """Send without Celery until nothing is due."""
    runtime = current_runtime()
    due = sum(read(reports.stats)["due"].values())
    with click.progressbar(length=due, label="Sending") as bar:
        total = run_drain(runtime, progress=bar.update)
    click.echo(f"{total} emails handled")
    left = sum(read(reports.stats)["due"].values())
    if runtime.suppressed():
        if left:
            raise click.ClickException(SUPPRESSED)
        click.echo(SUPPRESSED)
    for standing in server_figures(current_runtime())["servers"]:
        if left and standing["next_probe"] and standing["configured"]:
            raise click.ClickException(standing_line(standing))


@commands.command()
@click.argument("scope", type=_SCOPES, default=pauses.EVERYTHING)
@with_appcontext
def pause(scope: str) -> None:
    """Pause everything, or one priority. What is in flight still goes out."""
    changed = write(pauses.pause, _priority(scope))
    click.echo(f"{scope} {'is paused' if changed else 'was paused already'}")


@commands.command()
@click.argument("scope", type=_SCOPES, default=pauses.EVERYTHING)
@with_appcontext
def resume(scope: str) -> None:
    """Resume everything, or one priority."""
    changed = write(pauses.resume, _priority(scope))
    click.echo(f"{scope} {'is resumed' if changed else 'was not paused'}")


@commands.command()
@click.argument("address", required=False)
@click.option("--reason", default="by hand", show_default=True, callback=text(MAX_REASON))
@click.option("--remove", is_flag=True, help="Take the address off the list.")
@with_appcontext
def suppress(address: str | None, reason: str, remove: bool) -> None:
    """Keep an address from getting email; without one, show the list."""
    if address is None:
        for entry, why in read(suppression.suppressed):
            click.echo(f"{printable(entry)}  {printable(why)}")
        return
    try:
        address = check_address(address, "address")
    except InvalidMessage as error:
        raise click.BadParameter(str(error)) from None
    if remove:
        done = write(suppression.allow, address)
        click.echo("taken off the list" if done else "was not on the list")
    else:
        done = write(suppression.suppress, address, reason)
        click.echo("suppressed" if done else "was suppressed already")


@commands.command()
@as_json
@with_appcontext
def check(as_json: bool) -> None:
    """Examine configuration and schema; exit 1 when something is wrong."""
    findings = examine(current_runtime())
    if as_json:
        click.echo(json.dumps([{"level": f.level, "text": f.text} for f in findings]))
    else:
        for finding in findings:
            line = printable(f"{finding.level:<6} {finding.text}")
            click.secho(line, fg=_COLOURS[finding.level])
    if any(finding.level == "error" for finding in findings):
        raise SystemExit(1)


_COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}
