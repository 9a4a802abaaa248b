"""The commands that change any number of emails, in short transactions and with a progress bar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

import click
from flask.cli import with_appcontext
from sqlalchemy import Connection

from ...domain.config.enqueue_options import MAX_KEY, MAX_TAG
from ...domain.counted import counted
from ...domain.delivery.status import Status
from ...store.connection.database import Database
from ...store.queries import reports
from ...store.retention.mark import PurgeUnderWay
from ...store.retention.purge import Removed
from ...store.transitions.cancel import waiting, withdraw_ids
from ...store.transitions.retry import RETRIED
from ...worker.purge import purge_all
from ..management.audit import Act, unchanged
from ..management.corrections import RESOLVED
from ..management.newsletters.withdrawal import cancel_tag
from ..management.results import Corrections, Reason
from .shell import (
    DAYS,
    EMAIL_ID,
    current_outbox,
    current_runtime,
    fail_if_locked,
    person,
    text,
    with_patience,
    write,
)


def _words(statuses: Iterable[Status]) -> click.Choice[str]:
    return click.Choice([status.value for status in statuses])


@click.command()
@click.argument("ids", type=EMAIL_ID, nargs=-1)
@click.option("--status", type=_words(RETRIED), help="All emails of a status.")
@with_patience
def retry(ids: tuple[int, ...], status: str | None) -> None:
    """Retry failed or unknown emails: they are sent as they are.

    A copy of an unknown email may have arrived. Then its recipient gets a second one. The email
    stays in doubt, so it ends only as sent or unknown. An email whose expires_at has passed is left
    as it is: send-again sends it as a new message.
    """
    if bool(ids) == bool(status):
        raise click.UsageError("give either ids or --status")
    if status:
        with progress_bar() as progress:
            done = current_outbox().retry(status=status, progress=progress, by=person())
        _tell_left(done)
    else:
        done = current_outbox().retry(ids, by=person())
        _tell_unchanged(done)
    click.echo(f"{counted(len(done.changed), 'email is', 'emails are')} pending again")
    if done.unknown:
        doubtful = counted(len(done.unknown), "of them was", "of them were")
        told = "a copy may have arrived, so it ends only as sent or unknown"
        click.echo(f"{doubtful} unknown: {told}")
    fail_if_locked(len(done.locked))
    if not done.changed:
        raise SystemExit(1)


def _tell_unchanged(done: Corrections) -> None:
    for one in done.unchanged:
        colour = "yellow" if one.reason is Reason.LOCKED else None
        click.secho(f"email {one.id} is unchanged: {one}", fg=colour)


def _tell_left(done: Corrections) -> None:
    """Count the emails that need a person, and cannot be retried."""
    for ids, words in ((done.redacted, _REDACTED), (done.expired, _EXPIRED)):
        if ids:
            click.echo(counted(len(ids), *words))


_REDACTED = (
    "email is unchanged: its body was removed",
    "emails are unchanged: their bodies were removed",
)
_EXPIRED = (
    "email is unchanged: it is past its expires_at; send-again sends it as a new message",
    "emails are unchanged: each is past its expires_at; send-again sends one as a new message",
)


@contextmanager
def progress_bar(label: str = "Looking") -> Iterator[Callable[[int, int], None]]:
    """Show how many of the ids have been gone through."""
    with click.progressbar(length=0, label=label) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show


@click.command()
@click.argument("ids", type=EMAIL_ID, nargs=-1, required=True)
@click.option("--as", "outcome", type=_words(RESOLVED), required=True)
@with_patience
def resolve(ids: tuple[int, ...], outcome: str) -> None:
    """Settle emails in doubt as sent or failed, once you found out which."""
    done = current_outbox().resolve(ids, outcome, by=person())
    _tell_unchanged(done)
    now = list(done.changed.values())
    click.echo(f"{_are(now.count(Status(outcome)))} {outcome}")
    for other in sorted(set(now) - {outcome}):
        click.echo(f"{_are(now.count(other))} {other}: {_WHY[other]}")
    fail_if_locked(len(done.locked))
    if not now:
        raise SystemExit(1)


_WHY = {
    Status.SENT: "a recipient has a copy",
    Status.PENDING: "recipients that were not tried yet still wait",
}


def _are(emails: int) -> str:
    return counted(emails, "email is", "emails are")


@click.command()
@click.option("--id", "id_", type=EMAIL_ID)
@click.option("--key", callback=text(MAX_KEY))
@click.option("--tag", callback=text(MAX_TAG))
@with_patience
def cancel(id_: int | None, key: str | None, tag: str | None) -> None:
    """Withdraw emails that are not sent yet, by id, key or tag."""
    if sum(value is not None for value in (id_, key, tag)) != 1:
        raise click.UsageError("give exactly one of --id, --key and --tag")
    locked: Collection[int] = ()
    if tag is None:
        total, others = write(_withdraw, id_, key)
    else:
        with progress_bar() as progress:
            total, others, locked = cancel_tag(current_runtime(), tag, progress, person())
    click.echo(f"{counted(total, 'email')} cancelled")
    for status, emails in sorted(others.items()):
        click.echo(f"{_are(emails)} {status}: {_ENDED[status]}")
    fail_if_locked(len(locked))
    if not total:
        raise SystemExit(1)


_ENDED = {
    Status.SENT: "a recipient has a copy, and the others get none",
    Status.UNKNOWN: "in doubt before, it may have arrived; it is not sent again",
}


def _withdraw(
    connection: Connection, database: Database, id_: int | None, key: str | None
) -> tuple[int, Counter[Status]]:
    """Withdraw an email, and write the audit, in one transaction."""
    ids = waiting(connection, database, id=id_, key=key)
    total = withdraw_ids(connection, database, ids)
    ended = reports.statuses(connection, database, ids).values()
    others = Counter(status for status in ended if status in _ENDED)
    told = "cancelled" if total else next(map(str, others), unchanged("none was waiting"))
    # A key may have an address in it, and the audit is kept.
    what = {} if key is None else {"by": "key"}
    Act(who=person(), action="cancel", what=what).note(connection, database, told, id_)
    return total, others


@click.command()
@click.option("--days", type=DAYS, help="Default: OUTBOX_RETENTION.")
@with_appcontext
def purge(days: float | None) -> None:
    """Remove emails, and bodies, that finished long ago; never anything unfinished.

    Bodies go by OUTBOX_BODY_RETENTION, also with --days.
    """
    total = Removed()
    older_than = None if days is None else days * 86_400
    try:
        purging = purge_all(current_runtime(), older_than=older_than)
        with click.progressbar(purging, label="Purging") as chunks:
            for removed in chunks:
                total = total.plus(removed)
    except PurgeUnderWay as error:
        raise click.ClickException(f"{error}; try again later") from None
    click.echo(f"{counted(total.emails, 'email')} removed")
    if total.bodies:
        click.echo(f"{counted(total.bodies, 'body', 'bodies')} removed, of emails that stay")
