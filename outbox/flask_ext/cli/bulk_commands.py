"""The commands that change any number of emails: in short transactions, and with their progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click
from flask.cli import with_appcontext

from ...domain.config.enqueue_options import MAX_KEY, MAX_TAG
from ...domain.delivery.status import Status
from ...store.connection.list_parts import parts
from ...store.connection.row_locks import Change, on_free
from ...store.queries.id_scan import Scan, waiting_with_tag, with_status
from ...store.transitions import resolve as decisions
from ...store.transitions.cancel import withdraw, withdraw_ids
from ...store.transitions.purge import PurgeUnderWay
from ...worker.purge import purge_all
from .shell import DAYS, EMAIL_ID, current_runtime, read, text, write


@click.command()
@click.argument("ids", type=EMAIL_ID, nargs=-1)
@click.option("--status", type=click.Choice(["failed", "unknown"]), help="All emails of a status.")
@with_appcontext
def retry(ids: tuple[int, ...], status: str | None) -> None:
    """Send failed or unknown emails again.

    Of an unknown one a copy may have arrived: whoever got it gets a second one. What becomes of it
    now takes back no doubt, so it ends only as sent or unknown.
    """
    if bool(ids) == bool(status):
        raise click.UsageError("give either ids or --status")
    total = doubtful = 0
    for part, changed in _change(decisions.retry, _among(ids, status)):
        total += changed
        doubtful += read(decisions.count_unknown, part)
    click.echo(f"{total} emails are pending again")
    if doubtful:
        click.echo(
            f"{doubtful} of them in doubt: a copy may have arrived, they end sent or unknown"
        )
    if not total:
        raise SystemExit(1)


def _among(ids: Sequence[int], status: str | None) -> Iterator[list[int]]:
    """Yield ids for one transaction each.

    An email that fails again meanwhile is behind us: none is retried twice.
    """
    yield from map(list, parts(ids))
    if status:
        yield from _with_progress(with_status(current_runtime().database, Status(status)))


def _change(work: Change, found: Iterable[Sequence[int]]) -> Iterator[tuple[Sequence[int], int]]:
    """Change what is found, part by part; yield each part, and of how many emails it changed.

    What another transaction holds keeps nobody waiting: it is tried again at the end, and told.
    """
    held: list[int] = []
    for part in found:
        changed, left = write(on_free, work, part)
        held += left
        yield part, changed
    for part in parts(held):
        changed, left = write(on_free, work, part)
        yield part, changed
        if left:
            click.secho(f"{len(left)} emails are left: another transaction holds them", fg="yellow")


def _with_progress(scan: Scan) -> Iterator[list[int]]:
    """Yield what a scan finds, for one transaction each, and show how far it is."""
    with click.progressbar(length=scan.span, label="Looking") as bar:
        for stretch in scan:
            yield from map(list, parts(stretch.ids))
            bar.update(stretch.span)


@click.command()
@click.argument("ids", type=EMAIL_ID, nargs=-1, required=True)
@click.option("--as", "outcome", type=click.Choice(["sent", "failed"]), required=True)
@with_appcontext
def resolve(ids: tuple[int, ...], outcome: str) -> None:
    """Settle emails in doubt, as you found out: sent or failed."""
    chosen = Status(outcome)
    total = sum(write(decisions.resolve, list(part), chosen) for part in parts(ids))
    click.echo(f"{total} emails are {outcome}")
    if not total:
        raise SystemExit(1)


@click.command()
@click.option("--id", "id_", type=EMAIL_ID)
@click.option("--key", callback=text(MAX_KEY))
@click.option("--tag", callback=text(MAX_TAG))
@with_appcontext
def cancel(id_: int | None, key: str | None, tag: str | None) -> None:
    """Withdraw emails that are not sent yet, by id, key or tag."""
    if sum(value is not None for value in (id_, key, tag)) != 1:
        raise click.UsageError("give exactly one of --id, --key and --tag")
    if tag is None:
        total = write(withdraw, id=id_, key=key)
    else:
        found = _with_progress(waiting_with_tag(current_runtime().database, tag))
        total = sum(changed for _, changed in _change(withdraw_ids, found))
    click.echo(f"{total} emails cancelled")
    if not total:
        raise SystemExit(1)


@click.command()
@click.option("--days", type=DAYS, help="Default: OUTBOX_RETENTION.")
@with_appcontext
def purge(days: float | None) -> None:
    """Remove emails that finished long ago. Nothing unfinished is ever removed."""
    total, state = 0, current_runtime()
    older_than = state.settings.retention if days is None else days * 86_400
    try:
        with click.progressbar(purge_all(state, older_than=older_than), label="Purging") as chunks:
            for removed in chunks:
                total += removed
    except PurgeUnderWay as error:
        raise click.ClickException(f"{error}; try again later") from None
    click.echo(f"{total} emails removed")
