"""`flask outbox job …` and `flask outbox jobs`: an action on all emails that a filter finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ...domain.counted import counted
from ...domain.errors import InvalidMessage
from ...domain.jobs.order import Action
from ...store.report_records import Job
from ..management.server_lines import printable
from .find_commands import filters
from .printing.result import print_result
from .shell import EMAIL_ID, as_json, current_outbox, person, with_patience


@click.command()
@click.option("--before", type=EMAIL_ID, help="Only jobs with a smaller id.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@as_json
@with_patience
def jobs(before: int | None, limit: int, as_json: bool) -> None:
    """Show the jobs and how far they are, newest first."""
    found = current_outbox().jobs(before=before, limit=limit)
    print_result(found, lambda page: map(_line, page), as_json)


@click.group()
def job() -> None:
    """Do something to all emails that fulfil some filters; the workers do it."""


@job.command()
@click.argument("action", type=click.Choice([action.value for action in Action]))
@filters
@click.option("--dry-run", is_flag=True, help="Count, and change nothing.")
@with_patience
def start(action: str, dry_run: bool, **wanted: Any) -> None:
    """Start a job: retry, cancel, or resolve what is in doubt."""
    outbox = current_outbox()
    try:
        if dry_run:
            found = outbox.dry_run(action, **wanted)
            click.echo(f"{_emails(found.emails, found.more)} found")
            return
        made = outbox.start_job(action, **wanted, by=person())
    except InvalidMessage as error:
        raise click.UsageError(f"{error.field}: {error.rule}") from None
    click.echo(f"job {made.id} has started: {_emails(made.emails, made.more)} found")


@job.command()
@click.argument("id_", metavar="ID", type=EMAIL_ID)
@as_json
@with_patience
def show(id_: int, as_json: bool) -> None:
    """Show a job and how far it is."""
    found = current_outbox().job(id_)
    if found is None:
        raise click.ClickException(f"there is no job {id_}")
    print_result(found, lambda one: [_line(one), *_why_left(one)], as_json)


@job.command()
@click.argument("id_", metavar="ID", type=EMAIL_ID)
@with_patience
def stop(id_: int) -> None:
    """Stop a running job. What is done stays done."""
    if not current_outbox().stop_job(id_, by=person()):
        raise click.ClickException(f"job {id_} is not running")
    click.echo(f"job {id_} is stopped")


@job.command()
@click.argument("id_", metavar="ID", type=EMAIL_ID)
@with_patience
def resume(id_: int) -> None:
    """Let a stopped job go on from where it stopped."""
    if not current_outbox().resume_job(id_, by=person()):
        raise click.ClickException(f"job {id_} is not stopped")
    click.echo(f"job {id_} goes on")


def _emails(emails: int, more: bool) -> str:
    return f"{emails} or more emails" if more else counted(emails, "email")


def _line(one: Job) -> str:
    told = {name: "(removed)" if text is None else text for name, text in one.filters.items()}
    about = "".join(f" {name}={text}" for name, text in told.items())
    share = "" if one.share is None else f" {one.share:.0%}"
    reason = f" ({one.reason})" if one.reason else ""
    done = f"{one.changed} changed, {one.unchanged} unchanged"
    return printable(
        f"{one.id:>6}  {one.created_at:%Y-%m-%dT%H:%M:%S}  {one.state:<7}{share}  {one.action}"
        f"{about}: {_emails(one.emails, one.more)} found, {done}{reason}"
    )


def _why_left(one: Job) -> Iterator[str]:
    """Yield why a job may have left emails unchanged, if it has."""
    if one.unchanged:
        more = _LEFT_BY_RETRY if one.action is Action.RETRY else ""
        yield f"unchanged: another status meanwhile, {more}or another transaction held the row"


_LEFT_BY_RETRY = (
    "a body that was removed, an expires_at that has passed (send-again sends such an email as a"
    " new message), "
)
