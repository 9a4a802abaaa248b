"""The `flask outbox` commands. Exit codes: 0 done, 1 a check failed, 2 a wrong call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from flask import current_app
from flask.cli import with_appcontext

from ..domain.address import check_address
from ..domain.errors import InvalidMessage
from ..domain.lifecycle import Status
from ..domain.options import MAX_ID, MAX_KEY, MAX_TAG, check_name
from ..domain.priority import Priority
from ..store import pause as pauses
from ..store import report, resolve, suppression
from ..store.purge import purge as purge_chunk
from ..store.standing import alerts
from ..store.withdraw import withdraw
from ..worker.drain import drain as run_drain
from ..worker.sweep import publish
from ..worker.sweep import sweep as run_sweep
from .doctor import examine
from .figures import stats_lines
from .standing import printable, server_figures, standing_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..worker.runtime import Runtime

commands = click.Group("outbox", help="See, send and mend the mails of the outbox.")
"""Added to the app's own commands by `Outbox.init_app`."""

MAX_REASON = 200
_SCOPES = click.Choice(["all", *(priority.name.lower() for priority in Priority)])
_ID = click.IntRange(1, MAX_ID)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def _runtime() -> Runtime:
    state: Runtime = current_app.extensions["outbox"].runtime
    return state


def _read(work: Any, *args: Any, **kwargs: Any) -> Any:
    database = _runtime().database
    return database.read(lambda connection: work(connection, database, *args, **kwargs))


def _write(work: Any, *args: Any, **kwargs: Any) -> Any:
    database = _runtime().database
    return database.run(lambda connection: work(connection, database, *args, **kwargs))


def _text(longest: int) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Refuse what no mail can have, as text: a shell hands on any octets, a database does not."""

    def read(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        try:
            return check_name(str(parameter.name), value, longest)
        except InvalidMessage as error:
            raise click.BadParameter(error.rule) from None

    return read


def _priority(scope: str) -> Priority | None:
    return None if scope == pauses.EVERYTHING else Priority.of(scope)


@commands.command()
@as_json
@with_appcontext
def stats(as_json: bool) -> None:
    """Show how many mails there are, what waits, and what is wrong."""
    figures = _read(report.stats) | server_figures(_runtime())
    if as_json:
        click.echo(json.dumps(figures))
        return
    for line in stats_lines(figures):
        click.echo(line)


@commands.command("list")
@click.option("--status", type=click.Choice([status.value for status in Status]))
@click.option("--tag", callback=_text(MAX_TAG))
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@as_json
@with_appcontext
def list_(status: str | None, tag: str | None, limit: int, as_json: bool) -> None:
    """List the newest mails."""
    wanted = Status(status) if status else None
    mails = _read(report.listing, status=wanted, tag=tag, limit=limit)
    if as_json:
        click.echo(json.dumps(mails))
        return
    for mail in mails:
        more = f" +{mail['recipients'] - 1}" if mail["recipients"] > 1 else ""
        when = mail["finished_at"] or mail["due_at"] or mail["created_at"]
        click.echo(
            f"{mail['id']:>8}  {mail['status']:<10} {mail['priority']:<7}"
            f" {when[:19]}  {printable(mail['recipient'])}{more}"
        )


@commands.command()
@click.argument("id", type=_ID)
@as_json
@with_appcontext
def show(id: int, as_json: bool) -> None:  # noqa: A002
    """Show one mail: its recipients and every attempt."""
    mail = _read(report.detail, id)
    if mail is None:
        raise click.ClickException(f"there is no mail {id}")
    if as_json:
        click.echo(json.dumps(mail))
        return
    for name, value in mail.items():
        if value is not None and not isinstance(value, list):
            click.echo(f"{name:<14}{printable(value)}")
    for recipient in mail["recipient_list"]:
        reply = f"{recipient.get('code') or ''} {recipient.get('reply') or ''}".strip()
        address = printable(recipient["address"])
        click.echo(f"  {recipient['status']:<12}{address}  {printable(reply)}")
    for attempt in mail["attempt_list"]:
        click.echo(
            f"  {attempt['finished_at'][:19]}  {attempt['verdict']} at {attempt['phase']}:"
            f" {attempt['code']} {printable(attempt['reply'])}  [{attempt['worker']}]"
        )


@commands.command()
@click.argument("ids", type=_ID, nargs=-1)
@click.option("--status", type=click.Choice(["failed", "unknown"]), help="All mails of a status.")
@with_appcontext
def retry(ids: tuple[int, ...], status: str | None) -> None:
    """Send failed or unknown mails again."""
    if bool(ids) == bool(status):
        raise click.UsageError("give either ids or --status")
    chosen = list(ids)
    if status:
        mails = _read(report.listing, status=Status(status), limit=1_000_000)
        chosen = [mail["id"] for mail in mails]
    total = 0
    with click.progressbar(range(0, len(chosen), 500), label="Retrying") as chunks:
        for start in chunks:
            total += _write(resolve.retry, chosen[start : start + 500])
    click.echo(f"{total} mails are pending again")
    if not total:
        raise SystemExit(1)


@commands.command("resolve")
@click.argument("ids", type=_ID, nargs=-1, required=True)
@click.option("--as", "outcome", type=click.Choice(["sent", "failed"]), required=True)
@with_appcontext
def resolve_(ids: tuple[int, ...], outcome: str) -> None:
    """Settle mails in doubt, as you found out: sent or failed."""
    total = _write(resolve.resolve, list(ids), Status(outcome))
    click.echo(f"{total} mails are {outcome}")
    if not total:
        raise SystemExit(1)


@commands.command()
@click.option("--id", "id_", type=_ID)
@click.option("--key", callback=_text(MAX_KEY))
@click.option("--tag", callback=_text(MAX_TAG))
@with_appcontext
def cancel(id_: int | None, key: str | None, tag: str | None) -> None:
    """Withdraw mails that are not sent yet, by id, key or tag."""
    if sum(value is not None for value in (id_, key, tag)) != 1:
        raise click.UsageError("give exactly one of --id, --key and --tag")
    total = _write(withdraw, id=id_, key=key, tag=tag)
    click.echo(f"{total} mails cancelled")
    if not total:
        raise SystemExit(1)


@commands.command()
@with_appcontext
def sweep() -> None:
    """Claim what is due and hand it to the workers: beat's stand-in, for cron."""
    runtime = _runtime()
    click.echo(f"{run_sweep(runtime, publish(runtime))} mails handed out")


@commands.command()
@with_appcontext
def drain() -> None:
    """Send without Celery until nothing is due."""
    runtime = _runtime()
    due = sum(_read(report.stats)["due"].values())
    with click.progressbar(length=due, label="Sending") as bar:
        total = run_drain(runtime, progress=bar.update)
    click.echo(f"{total} mails handled")
    left = sum(_read(report.stats)["due"].values())
    for standing in server_figures(_runtime())["servers"]:
        if left and standing["since"] and standing["configured"]:
            raise click.ClickException(standing_line(standing))


@commands.command()
@click.argument("scope", type=_SCOPES, default=pauses.EVERYTHING)
@with_appcontext
def pause(scope: str) -> None:
    """Pause everything, or one priority. What is in flight still goes out."""
    changed = _write(pauses.pause, _priority(scope))
    click.echo(f"{scope} {'is paused' if changed else 'was paused already'}")


@commands.command()
@click.argument("scope", type=_SCOPES, default=pauses.EVERYTHING)
@with_appcontext
def resume(scope: str) -> None:
    """Resume everything, or one priority."""
    changed = _write(pauses.resume, _priority(scope))
    click.echo(f"{scope} {'is resumed' if changed else 'was not paused'}")


@commands.command()
@click.option("--days", type=click.FloatRange(0), help="Default: OUTBOX_RETENTION.")
@with_appcontext
def purge(days: float | None) -> None:
    """Remove mails that finished long ago. Nothing unfinished is ever removed."""
    runtime, total = _runtime(), 0
    older_than = runtime.settings.retention if days is None else days * 86_400
    with click.progressbar(
        iter(lambda: purge_chunk(runtime.database, older_than=older_than), 0), label="Purging"
    ) as chunks:
        for removed in chunks:
            total += removed
    click.echo(f"{total} mails removed")


@commands.command()
@click.argument("address", required=False)
@click.option("--reason", default="by hand", show_default=True, callback=_text(MAX_REASON))
@click.option("--remove", is_flag=True, help="Take the address off the list.")
@with_appcontext
def suppress(address: str | None, reason: str, remove: bool) -> None:
    """Keep an address from getting mail; without one, show the list."""
    if address is None:
        for entry, why in _read(suppression.suppressed):
            click.echo(f"{printable(entry)}  {printable(why)}")
        return
    try:
        address = check_address(address, "address")
    except InvalidMessage as error:
        raise click.BadParameter(str(error)) from None
    if remove:
        done = _write(suppression.allow, address)
        click.echo("taken off the list" if done else "was not on the list")
    else:
        done = _write(suppression.suppress, address, reason)
        click.echo("suppressed" if done else "was suppressed already")


@commands.command()
@as_json
@with_appcontext
def check(as_json: bool) -> None:
    """Examine configuration and schema; exit 1 when something is wrong."""
    findings = examine(_runtime())
    if as_json:
        click.echo(json.dumps([{"level": f.level, "text": f.text} for f in findings]))
    else:
        for finding in findings:
            click.secho(f"{finding.level:<6} {finding.text}", fg=_COLOURS[finding.level])
    if any(finding.level == "error" for finding in findings):
        raise SystemExit(1)


_COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}


@commands.command()
@click.option("--max-age", type=click.FloatRange(0), help="Seconds; default: OUTBOX_HEALTH_AGE.")
@as_json
@with_appcontext
def health(max_age: float | None, as_json: bool) -> None:
    """Exit 1 when the oldest due mail has waited too long, or a server needs a person."""
    limit = _runtime().settings.health_age if max_age is None else max_age
    age, servers = _read(report.oldest_due), server_figures(_runtime())["servers"]
    raised = alerts(servers)
    healthy = age <= limit and not raised
    if as_json:
        figures = {"healthy": healthy, "oldest_due_seconds": age, "limit": limit}
        click.echo(json.dumps(figures | {"alerts": raised, "servers": servers}))
    else:
        click.echo(f"the oldest due mail has waited {age:.1f} s (limit {limit:.0f} s)")
        for standing in raised:
            click.secho(standing_line(standing), fg="red")
    if not healthy:
        raise SystemExit(1)
