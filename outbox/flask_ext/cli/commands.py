"""The `flask outbox` commands. Exit codes: 0 done, 1 a check failed, 2 a wrong call."""

from __future__ import annotations

from collections import Counter

import click
from flask.cli import with_appcontext

from ...domain.config.enqueue_options import MAX_TAG
from ...domain.counted import counted
from ...domain.errors import InvalidMessage
from ...domain.priority import Priority
from ...domain.version import __version__
from ...store.control.pause import EVERYTHING
from ...store.records import Claim
from ...store.schema.column_types import REASON_LENGTH
from ...worker.batch.batch_end import BatchReport
from ...worker.beat_mark import note_beat
from ...worker.drain import drain as run_drain
from ...worker.jobs import run_jobs
from ...worker.sweep import publish
from ...worker.sweep import sweep as run_sweep
from ..management.emails import MOST_ON_PAGE
from ..management.figures import due, servers
from ..management.server_lines import SUPPRESSED, paused_line, printable, server_line
from .audit import audit
from .bulk_commands import cancel, purge, resolve, retry
from .check import check
from .figures import backlog, figures, metrics
from .find_commands import index, list_, problems
from .health import health
from .jobs import job, jobs
from .message_commands import send_again, source
from .printing.email_lines import email_lines
from .printing.progress_lines import progress_lines
from .printing.result import print_result
from .printing.stats_lines import stats_lines
from .privacy.commands import erase, export, readmit
from .restore_commands import held, moved, release, restored
from .shell import (
    EMAIL_ID,
    CommandGroup,
    as_json,
    current_outbox,
    current_runtime,
    person,
    refuse_copy,
    refuse_older_schema,
    text,
    with_patience,
)
from .silence import bounded
from .watch import watch
from .workers import workers

commands = CommandGroup("outbox", help="See, send and correct the emails of the outbox.")
"""Added to the app's own commands by `Outbox.init_app`."""

click.version_option(__version__, message="flask-mail-outbox %(version)s")(commands)

for each in (
    list_,
    problems,
    index,
    retry,
    resolve,
    cancel,
    job,
    jobs,
    purge,
    workers,
    health,
    watch,
    check,
    audit,
    source,
    send_again,
    restored,
    moved,
    held,
    release,
    figures,
    backlog,
    export,
    erase,
    readmit,
    metrics,
):
    commands.add_command(each)

_SCOPES = click.Choice([EVERYTHING, *(priority.name.lower() for priority in Priority)])


@commands.command()
@as_json
@with_patience
def stats(as_json: bool) -> None:
    """Show how many emails there are, what waits, and what is wrong."""
    print_result(current_outbox().stats(), stats_lines, as_json)


@commands.command()
@click.option("--tag", callback=text(MAX_TAG), help="Only the emails with this tag.")
@as_json
@with_patience
def progress(tag: str | None, as_json: bool) -> None:
    """Show how far emails have come, and which batches have them."""
    print_result(current_outbox().progress(tag), progress_lines, as_json)


@commands.command()
@click.argument("id", type=EMAIL_ID)
@as_json
@with_patience
def show(id: int, as_json: bool) -> None:  # noqa: A002
    """Show one email: why it waits, its recipients and every attempt."""
    email = current_outbox().get(id)
    if email is None:
        raise click.ClickException(f"there is no email {id}")
    print_result(email, email_lines, as_json)


@commands.command()
@with_appcontext
def sweep() -> None:
    """Claim what is due and hand it to the workers, from cron in the place of beat; do the jobs.

    Exit 1 where the broker did not take all of it.
    """
    runtime = current_runtime()
    if runtime.is_eager:
        text = "task_always_eager is set, so no worker would take it: flask outbox drain sends"
        raise click.ClickException(text)
    refuse_copy(runtime)
    note_beat(runtime)
    emails, hand_out = Counter[str](), publish(runtime)

    def count(made: Claim) -> None:
        emails[hand_out(made)] += made.emails

    run_sweep(runtime, count)
    click.echo(f"{counted(emails.pop('', 0), 'email')} handed out")
    while runtime.has_jobs and run_jobs(runtime):
        pass
    _tell_pauses()
    if runtime.sending_is_off():
        click.echo(SUPPRESSED)
    if emails:
        left = counted(emails.total(), "email was", "emails were")
        why = "; ".join(sorted(emails))
        raise click.ClickException(f"{left} not published ({why}). {_CLAIMED}")


_CLAIMED = "They stay claimed: when their lease has ended, a later sweep hands them out"


@commands.command()
@with_appcontext
def drain() -> None:
    """Send without Celery until nothing is due."""
    runtime = current_runtime()
    refuse_copy(runtime)
    note_beat(runtime)
    count = due(runtime)
    refuse_older_schema(runtime)
    reports: list[BatchReport] = []
    with click.progressbar(length=count, label="Sending") as bar:
        total = run_drain(runtime, progress=bar.update, ended=reports.append, is_command=True)
    click.echo(_handled(total, sum(report.sent for report in reports)))
    _tell_pauses()
    left = due(runtime)
    if runtime.sending_is_off():
        if left:
            raise click.ClickException(SUPPRESSED)
        click.echo(SUPPRESSED)
    for server in servers(runtime) if left else ():
        if server.next_probe and server.configured:
            waiting = counted(left, "email is", "emails are")
            text = f"{server_line(server)}; {waiting} still due: {_AGAIN}"
            raise click.ClickException(text)
    if undone := sorted(runtime.job_pace.left_until):
        waiting = ", ".join(map(str, undone))
        raise click.ClickException(f"not done, as the log says why: job {waiting}")


_AGAIN = "run flask outbox drain again after the next probe's time; from cron, each minute"


def _handled(total: int, sent: int) -> str:
    """Return how many emails were handled, and how many of them left where not all did."""
    told = f"{counted(total, 'email')} handled"
    return told if sent == total else f"{told}, {sent or 'none'} sent"


def _tell_pauses() -> None:
    """Tell what is held back though it is due: nothing else says why so little was sent."""
    for one in current_outbox().paused():
        click.secho(paused_line(one.scope), fg="yellow")


@commands.command()
@click.argument("scope", type=_SCOPES, default=EVERYTHING)
@bounded
@with_patience
def pause(scope: str) -> None:
    """Pause everything, or one priority. What is in flight still goes out."""
    changed = current_outbox().pause(_priority(scope), by=person())
    click.echo(f"{scope} {'is paused' if changed else 'was paused already'}")


@commands.command()
@click.argument("scope", type=_SCOPES, default=EVERYTHING)
@bounded
@with_patience
def resume(scope: str) -> None:
    """Resume everything, or one priority."""
    changed = current_outbox().resume(_priority(scope), by=person())
    click.echo(f"{scope} {'is resumed' if changed else 'was not paused'}")


def _priority(scope: str) -> str | None:
    return None if scope == EVERYTHING else scope


@commands.command()
@click.argument("address", required=False)
@click.option("--reason", default="by hand", show_default=True, callback=text(REASON_LENGTH))
@click.option("--remove", is_flag=True, help="Take the address off the list.")
@bounded
@with_patience
def suppress(address: str | None, reason: str, remove: bool) -> None:
    """Put an address on the suppression list; without an address, show the list."""
    outbox = current_outbox()
    if address is None:
        if remove:
            raise click.UsageError("--remove needs an address")
        _show_suppressed()
        return
    try:
        if remove:
            done = outbox.unsuppress(address, by=person())
        else:
            done = outbox.suppress(address, reason, by=person())
    except InvalidMessage as error:
        raise click.BadParameter(str(error)) from None
    if remove:
        click.echo("taken off the list" if done else "was not on the list")
    else:
        click.echo("suppressed" if done else "was suppressed already")


def _show_suppressed() -> None:
    """Show the list page by page, for it may be long."""
    after = None
    while True:
        page = current_outbox().suppressed(after=after, limit=MOST_ON_PAGE)
        for entry in page:
            click.echo(f"{printable(entry.address)}  {printable(entry.reason)}")
        if len(page) < MOST_ON_PAGE:
            return
        after = page[-1].address
