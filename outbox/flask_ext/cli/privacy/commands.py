"""The commands for one person's data: export it, erase it, and let the person get email again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ....domain.counted import counted
from ....domain.errors import InvalidMessage
from ....store.report_records import Suppression
from ...management.privacy.export import Exported
from ..printing.json_output import plain, print_json
from ..shell import current_outbox, person, with_patience

scan = click.option(
    "--scan", is_flag=True, help="Read all emails: some were never indexed by recipient."
)


@click.command()
@click.argument("address")
@scan
@with_patience
def export(address: str, scan: bool) -> None:
    """Print what the outbox has of one person, as JSON: a line for each email."""
    with _one_address():
        for one in current_outbox().export(address, scan=scan):
            print_json(_line(one))


def _line(one: Exported) -> dict[str, Any]:
    if isinstance(one, Suppression):
        return {"kind": "suppression", **plain(one)}
    return {"kind": "email", **plain(one.email), "message": plain(one.message)}


@click.command()
@click.argument("address")
@click.option("--yes", is_flag=True, help="Do not ask.")
@scan
@with_patience
def erase(address: str, yes: bool, scan: bool) -> None:
    """Erase one person from all emails, and never send them email again; exit 1 if some are left.

    What is not sent yet is cancelled. Emails that are being sent, or are in doubt, are left: run it
    again when they have ended.
    """
    if not yes:
        click.confirm("What is erased cannot be brought back. Go on?", abort=True)
    with _one_address():
        done = current_outbox().erase(address, scan=scan, by=person())
    cancelled = f", {done.cancelled} of them not sent yet" if done.cancelled else ""
    click.echo(f"{counted(done.emails, 'email is', 'emails are')} erased{cancelled}")
    if done.was_suppressed:
        click.echo("a tombstone stands in the place of the suppression list's entry")
    for email_id, reason in done.left.items():
        click.secho(f"email {email_id} is left: {reason}", fg="yellow")
    if done.left:
        raise SystemExit(1)


@click.command()
@click.argument("address")
@with_patience
def readmit(address: str) -> None:
    """Let a person get email again who was erased."""
    with _one_address():
        done = current_outbox().readmit(address, by=person())
    click.echo("may get email again" if done else "was not erased")


@contextmanager
def _one_address() -> Iterator[None]:
    """Tell a wrong address as a wrong call."""
    try:
        yield
    except InvalidMessage as error:
        raise click.BadParameter(error.rule, param_hint="ADDRESS") from None
