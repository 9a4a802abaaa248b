"""The commands on the content of one email: print it, or send it once more as a new message."""

from __future__ import annotations

import click

from ...domain.errors import InvalidMessage
from .shell import EMAIL_ID, current_outbox, person, with_patience


@click.command()
@click.argument("id", type=EMAIL_ID)
@with_patience
def source(id: int) -> None:  # noqa: A002
    """Print one email as it is sent, for an .eml file."""
    octets = current_outbox().source(id)
    if octets is None:
        raise click.ClickException(
            f"there is no email {id}, or its content is damaged or removed, or its key is missing"
        )
    click.echo(octets, nl=False)


@click.command("send-again")
@click.argument("id", type=EMAIL_ID)
@with_patience
def send_again(id: int) -> None:  # noqa: A002
    """Enqueue the content of an email as a new message to the same recipients."""
    try:
        made = current_outbox().send_again(id, by=person())
    except InvalidMessage as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"enqueued as email {made.id}")
