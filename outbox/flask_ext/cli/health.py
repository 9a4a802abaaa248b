"""`flask outbox health` and `watch`: an exit code for a probe, and an alarm where there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click
from flask.cli import with_appcontext
from sqlalchemy.exc import SQLAlchemyError

from ...domain.counted import counted
from ...domain.errors import RowsLocked
from ...store.connection.error_codes import describe
from ..alarm.health_signal import problems_of
from ..alarm.verbs import Watching
from ..management.results import Health
from ..management.server_lines import SUPPRESSED, printable, server_colour, server_line
from .printing.json_output import print_json
from .shell import SECONDS, as_json, current_outbox, current_runtime


@click.command()
@click.option("--max-age", type=SECONDS, help="Seconds; default: OUTBOX_HEALTH_AGE.")
@as_json
@with_appcontext
def health(max_age: float | None, as_json: bool) -> None:
    """Exit 1 when an email has been due or claimed for too long, or a server needs a person."""
    found = current_outbox().health(max_age)
    if as_json:
        print_json(found)
    else:
        _tell(found, suppressed=current_runtime().sending_is_off())
    if not found.healthy:
        raise SystemExit(1)


def _tell(health: Health, *, suppressed: bool) -> None:
    limit, age, claimed = health.limit, health.oldest_due_seconds, health.oldest_claimed_seconds
    if age is not None:
        click.echo(f"the oldest due email has waited {age:.1f} s (limit {limit:.0f} s)")
    if health.stuck is not None:
        due = counted(health.due or 0, "email is", "emails are")
        stuck = counted(health.stuck, "has", "have")
        click.echo(f"{due} due, {health.claimed} claimed; {stuck} been either for too long")
    if claimed is not None and claimed > limit:
        click.secho(f"an email stands claimed and has waited {claimed:.1f} s", fg="red")
    if suppressed and SUPPRESSED not in health.problems:
        click.echo(SUPPRESSED)
    for server in health.servers:
        click.secho(server_line(server), fg=server_colour(server))
    for problem in health.problems:
        click.secho(printable(problem), fg="red")
    for warning in health.warnings:
        click.secho(printable(warning), fg="yellow")


PATIENCE = 60.0
"""Seconds that the command of `watch` may take: cron may start the next one a minute later."""


TOGETHER = 1.0
"""Seconds within which several signals count as one."""

_ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Windows has no SIGHUP."""


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--max-age", type=SECONDS, help="Seconds; default: OUTBOX_HEALTH_AGE.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@with_appcontext
def watch(max_age: float | None, command: tuple[str, ...]) -> None:
    """Tell when the health has turned, from cron; run a COMMAND then.

    It prints nothing while the health is as it was. The COMMAND gets the problems as its input, a
    line for each, and OUTBOX_HEALTH in its environment: healthy or unhealthy. If it fails, watch
    exits 1, and the next one tells again.
    """
    with _ended_in_order():
        outbox = current_outbox()
        if (health := outbox.watch(max_age)) is not None:
            _tell_turn(outbox, health, command)


def _tell_turn(outbox: Watching, health: Health, command: Sequence[str]) -> None:
    """Run the command and print what has turned. If nobody was told, the next watch tells again.

    The command comes first: standard output may be a full disk.
    """
    is_told = False
    try:
        failure = _failure(command, health) if command else ""
        is_told = bool(command) and not failure
        click.echo("\n".join([f"outbox: {_word(health)}", *problems_of(health)]))
        if failure:
            text = f"{printable(command[0])} {failure}: the next watch tells again"
            raise click.ClickException(text)
    except BaseException:
        if not is_told:
            _have_told_again(outbox, health)
        raise


def _have_told_again(outbox: Watching, health: Health) -> None:
    """Note that nobody was told. If that cannot be kept, say so, and let the first error count."""
    try:
        outbox.watch_again(health)
    except (SQLAlchemyError, RowsLocked) as error:
        told = f"nobody was told, and the database keeps no note of it now ({describe(error)})"
        with suppress(OSError):  # a full disk
            click.echo(f"outbox: {told}: once it does, watch may be silent", err=True)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise SystemExit in the block: at once nothing could be put in order.

    Only the first one does: `timeout` signals to the process, and again to its group. One that
    comes later ends the process at once, whatever it waits for. A signal that is ignored stays so,
    as under `nohup`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    came: list[float] = []

    def end(number: int, _: object) -> None:
        came.append(time.monotonic())
        if len(came) == 1:
            raise SystemExit(128 + number)
        if came[-1] - came[0] > TOGETHER:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    now = signal.getsignal
    before = {each: how for each in _ENDS if (how := now(each)) is not signal.SIG_IGN}
    try:
        for each in before:
            signal.signal(each, end)
        yield
    finally:
        for each, how in before.items():
            signal.signal(each, how or signal.SIG_DFL)


def _word(health: Health) -> str:
    return "healthy" if health.healthy else "unhealthy"


def _failure(command: Sequence[str], health: Health) -> str:
    """Run the command; return how it failed, or nothing."""
    told = "".join(f"{problem}\n" for problem in problems_of(health))
    environment = os.environ | {"OUTBOX_HEALTH": _word(health)}
    try:
        done = subprocess.run(  # noqa: S603  (the command is the caller's own)
            command, input=told, text=True, env=environment, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"failed ({type(error).__name__})"
    return f"exited {done.returncode}" if done.returncode else ""
