"""The commands after a restore, and after a move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from ...domain.config.enqueue_options import MAX_TAG
from ...domain.counted import counted
from ...domain.errors import InvalidMessage
from ...domain.priority import Priority
from ...store.instance.hold import HeldEmails
from ..management.server_lines import printable
from .bulk_commands import progress_bar
from .printing.result import print_result
from .shell import EMAIL_ID, as_json, current_outbox, fail_if_locked, person, text, with_patience


@click.command()
@with_patience
def restored() -> None:
    """Hold what waits, and let this outbox send: after a restore, or in a copy.

    Stop the workers before. What is held stays until `flask outbox release`; new emails go out.
    """
    with progress_bar() as progress:
        done = current_outbox().restored(progress=progress, by=person())
    click.echo(f"{counted(done.held, 'email is', 'emails are')} held")
    if done.locked:
        locked = f"another transaction holds {counted(done.locked, 'email')}: run it again"
        raise click.ClickException(f"{locked}; until then nothing is sent")
    click.echo("new emails are sent; flask outbox held shows the others")


@click.command()
@with_patience
def moved() -> None:
    """Let the original send from a new place, or under a new name; hold nothing."""
    current_outbox().moved(by=person())
    click.echo("this outbox sends from here")


@click.command()
@as_json
@with_patience
def held(as_json: bool) -> None:
    """Show what is held since a restore."""
    print_result(current_outbox().held(), _lines, as_json)


def _lines(found: Iterable[HeldEmails]) -> Iterator[str]:
    total = 0
    for one in found:
        yield _line(one)
        total += one.emails
    yield f"{counted(total, 'email is', 'emails are')} held"


def _line(one: HeldEmails) -> str:
    tag = "without a tag" if one.tag is None else f"tag {one.tag}"
    to_come = f", {one.scheduled} of them scheduled for later" if one.scheduled else ""
    return printable(
        f"{one.emails:>8}  {one.priority.name.lower():<7} {tag}, the oldest of"
        f" {one.oldest:%Y-%m-%dT%H:%M:%S}{to_come}"
    )


@click.command()
@click.argument("ids", type=EMAIL_ID, nargs=-1)
@click.option("--tag", callback=text(MAX_TAG), help="Only the emails with this tag.")
@click.option("--priority", type=click.Choice([one.name.lower() for one in Priority]))
@click.option("--scheduled", is_flag=True, help="Only those whose send_at is yet to come.")
@click.option("--all", "everything", is_flag=True, help="All that is held.")
@with_patience
def release(
    ids: tuple[int, ...], tag: str | None, priority: str | None, scheduled: bool, everything: bool
) -> None:
    """Let held emails go: some ids, all that fulfil the options, or all."""
    try:
        with progress_bar() as progress:
            done = current_outbox().release(
                ids or None,
                tag=tag,
                priority=priority,
                scheduled=scheduled,
                everything=everything,
                progress=progress,
                by=person(),
            )
    except InvalidMessage as error:
        raise click.UsageError(error.rule) from None
    click.echo(f"{counted(done.emails, 'email is', 'emails are')} released")
    fail_if_locked(len(done.locked))
    if not done.emails:
        raise SystemExit(1)
