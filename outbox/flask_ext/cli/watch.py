"""`flask outbox watch`: an alarm from cron, where nothing probes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click
from flask.cli import with_appcontext
from sqlalchemy.exc import SQLAlchemyError

from ...domain.errors import RowsLocked
from ...store.connection.error_codes import describe
from ..alarm.health_signal import problems_of
from ..alarm.note import note_of
from ..alarm.verbs import Watching
from ..management.results import Health
from ..management.server_lines import printable
from .shell import SECONDS, current_outbox, current_runtime
from .silence import bounded

PATIENCE = 60.0
"""Seconds that the command of `watch` may take: cron may start the next one a minute later."""

_LOOK = 0.1
"""Seconds after which a signal is seen while the command runs."""

TOGETHER = 1.0
"""Seconds within which several signals count as one."""

_ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Windows has no SIGHUP."""


def _named(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty name. As a path it would be the working directory."""
    if value is not None and not value:
        raise click.BadParameter("is empty: name a file")
    return value


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--max-age", type=SECONDS, help="Seconds; default: OUTBOX_HEALTH_AGE.")
@click.option(
    "--note",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    callback=_named,
    help="Made while the database cannot keep what was told: so that is told once, and its end.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@bounded
@with_appcontext
def watch(max_age: float | None, note: str | None, command: tuple[str, ...]) -> None:
    """Tell when the health has turned, from cron; run a COMMAND then.

    It prints nothing while the health is as it was. The COMMAND gets the problems as its input, a
    line for each, and OUTBOX_HEALTH in its environment: healthy or unhealthy. If it fails, watch
    exits 1, and the next one tells again.
    """
    with _ended_in_order() as ending:
        outbox = current_outbox()
        if (health := outbox.watch(max_age, note=note)) is not None:
            _tell_turn(outbox, health, command, ending)


class _Ending:
    """What SIGTERM and SIGHUP do: the first raises SystemExit, so that all is put in order.

    `timeout` signals to the process, and again to its group: these count as one. One that comes
    later ends the process at once, whatever it waits for.
    """

    def __init__(self) -> None:
        self.status = 0
        """The exit status that the first signal asks for."""
        self._since = 0.0
        self._is_held = False

    def __call__(self, number: int, _: object) -> None:
        if not self.status:
            self.status, self._since = 128 + number, time.monotonic()
            if not self._is_held:
                raise SystemExit(self.status)
        elif time.monotonic() - self._since > TOGETHER:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the first signal wait for the end of the block, which looks at `status` itself.

        Raised within `subprocess`, SystemExit can leave its lock taken: then it waits for ever.
        """
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self.status:
            raise SystemExit(self.status)


@contextmanager
def _ended_in_order() -> Iterator[_Ending]:
    """Have signals end the block in order. One that is ignored stays so, as under `nohup`."""
    ending = _Ending()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return

    now = signal.getsignal
    before = {each: how for each in _ENDS if (how := now(each)) is not signal.SIG_IGN}
    try:
        for each in before:
            signal.signal(each, ending)
        yield ending
    finally:
        for each, how in before.items():
            signal.signal(each, how or signal.SIG_DFL)


def _tell_turn(outbox: Watching, health: Health, command: Sequence[str], ending: _Ending) -> None:
    """Run the command and print what has turned. If nobody was told, the next watch tells again.

    The command comes first: standard output may be a full disk.
    """
    is_told = False
    try:
        failure = _failure(command, health, ending) if command else ""
        is_told = bool(command) and not failure
        if sys.stdout is None and not command:
            raise click.ClickException("standard output is closed: the next watch tells again")
        click.echo("\n".join([f"outbox: {_word(health)}", *problems_of(health), *_unkept()]))
        if failure:
            text = f"{printable(command[0])} {failure}: the next watch tells again"
            raise click.ClickException(text)
    except BaseException:
        if not is_told:
            _have_told_again(outbox, health)
        raise


def _unkept() -> Iterator[str]:
    """Yield that no later watch knows of this one, if so it is."""
    if note_of(current_runtime().app).is_in_memory:
        yield (
            "the database cannot keep that this was told: until it can, each watch tells of it, and"
            " none tells its end (watch --note FILE does)"
        )


def _have_told_again(outbox: Watching, health: Health) -> None:
    """Note that nobody was told. If that cannot be kept, say so, and let the first error count."""
    try:
        outbox.watch_again(health)
    except (SQLAlchemyError, RowsLocked) as error:
        told = f"nobody was told, and the database keeps no note of it now ({describe(error)})"
        with suppress(OSError):  # a full disk
            click.echo(f"outbox: {told}: once it does, watch may be silent", err=True)


def _word(health: Health) -> str:
    return "healthy" if health.healthy else "unhealthy"


def _failure(command: Sequence[str], health: Health, ending: _Ending) -> str:
    """Run the command; return how it failed, or nothing."""
    told = "".join(f"{problem}\n" for problem in problems_of(health))
    environment = os.environ | {"OUTBOX_HEALTH": _word(health)}
    try:
        with ending.held():
            status = _status(command, told, environment, ending)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"failed ({type(error).__name__})"
    return f"exited {status}" if status else ""


def _status(command: Sequence[str], told: str, environment: dict[str, str], ending: _Ending) -> int:
    """Run the command until it exits, or a signal is to end this process; return its exit status.

    Raises OSError if it cannot be started, and TimeoutExpired after `PATIENCE`.
    """
    process = subprocess.Popen(  # noqa: S603  (the command is the caller's own)
        command, stdin=subprocess.PIPE, text=True, env=environment
    )
    with process:
        try:
            _feed(process, told, ending)
        finally:
            process.kill()
    return process.returncode


def _feed(process: subprocess.Popen[str], told: str, ending: _Ending) -> None:
    """Give the process its input and wait for its end, while no signal has come."""
    deadline = time.monotonic() + PATIENCE
    rest: str | None = told
    while not ending.status:
        try:
            process.communicate(rest, timeout=_LOOK)
            return
        except subprocess.TimeoutExpired:
            rest = None  # it is kept by the process's object
            if time.monotonic() > deadline:
                raise
