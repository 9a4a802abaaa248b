"""The commands that find emails: a page of them, those that need a person, and their index."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from ...domain.counted import counted
from ...domain.delivery.status import Status
from ...domain.errors import InvalidMessage
from ...store.report_records import EmailSummary
from ..management.emails import MOST_ON_PAGE
from .bulk_commands import progress_bar
from .printing.email_lines import list_line, problem_lines
from .printing.json_output import print_json
from .printing.result import print_result
from .shell import as_json, current_outbox, with_patience

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def _moment(_: click.Context, __: click.Parameter, given: str | None) -> datetime | None:
    """Return a moment; without a time zone it is in UTC."""
    try:
        found = None if given is None else datetime.fromisoformat(given)
    except ValueError:
        rule = "must be a time in ISO 8601, such as 2026-07-01 or 2026-07-01T12:00Z"
        raise click.BadParameter(rule) from None
    return found.replace(tzinfo=UTC) if found and not found.tzinfo else found


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options by which emails are found."""
    options: tuple[Option, ...] = (
        click.option("--recipient", help="A whole address."),
        click.option("--message-id"),
        click.option("--subject", help="The beginning of the subject."),
        click.option("--key"),
        click.option("--tag"),
        click.option("--status", type=click.Choice([status.value for status in Status])),
        click.option("--since", callback=_moment, help="Created then or later, in UTC."),
        click.option("--until", callback=_moment, help="Created before then."),
        click.option("--domain", help="Of the recipient; with --status failed or unknown."),
        click.option("--server", help="Of the last attempt; likewise."),
        click.option("--reply", help="The last attempt's codes, such as '550 5.1.1'; likewise."),
        click.option("--phase", help="The step that decided it, such as rcpt; likewise."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("list")
@filters
@click.option("--after", help="Where the list before has ended.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts, a line for each.")
@with_patience
def list_(as_json: bool, limit: int, after: str | None, **wanted: Any) -> None:
    """List emails, newest first: all, or those that fulfil all the filters."""
    outbox, show = current_outbox(), print_json if as_json else _show
    while limit:
        try:
            found = outbox.list(limit=min(limit, MOST_ON_PAGE), after=after, **wanted)
        except InvalidMessage as error:
            option = f"'--{error.field.replace('_', '-')}'"
            raise click.BadParameter(error.rule, param_hint=option) from None
        for email in found:
            show(email)
        limit, after = limit - len(found), found.next
        if after is None:
            return
    click.echo(f"more: --after {after}", err=True)


def _show(email: EmailSummary) -> None:
    click.echo(list_line(email))


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@as_json
@with_patience
def problems(limit: int, as_json: bool) -> None:
    """Show what needs a person: failed and unknown emails, grouped by what went wrong."""
    print_result(current_outbox().problems(limit=limit), problem_lines, as_json)


@click.command()
@with_patience
def index() -> None:
    """Index emails that were written before an upgrade, or before OUTBOX_SEARCH got longer."""
    with progress_bar("Indexing") as progress:
        locked = current_outbox().index(progress=progress)
    if locked:
        told = counted(
            locked, "email was locked by another transaction", "emails were locked by others"
        )
        raise click.ClickException(f"{told}: run this again")
    click.echo("every email is indexed")
