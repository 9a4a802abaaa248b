"""Says what a command waits for while its database is silent; some commands then wait no longer.

A frozen disk, or a commit that waits for a lost replica, ends by no time-out of the server's.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import WeakSet

import click
from sqlalchemy import Connection, Engine, event

from ..management.checks import long_waits
from ..management.failures.database_line import address_of

if TYPE_CHECKING:
    from ...store.connection.database import Database

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

TOLD = 5.0
"""Seconds of silence after which a line tells of it."""

MOST = 30.0
"""Seconds of silence after which a command that is `bounded` gives up."""

AFTERWARDS = 2.0
"""Seconds of it where the command has given up before: what it asks next would be as silent."""

CONNECT = 10
"""Seconds for a connection of a `bounded` command, unless the engine's own are set. psycopg would
wait for two minutes, and longer with several hosts. The next one gets two, the least it knows."""

_AGAIN = 2
_IN_PYTHON = ("pymysql", "cymysql")
"""Drivers whose limit for a connection does not bound the wait for the server's first words."""

_LOOK = 0.1
_KEY = "outbox.silence"
_UNCONFIRMED = (
    ": the change may have been made, or be made later. Look whether it is there before you repeat"
    " it"
)


@dataclass(kw_only=True, eq=False)
class _Wait:
    """A connection that is being made, or is in use."""

    driver: Any = None
    way: tuple[int, int] | None = None
    since: float = field(default_factory=time.monotonic)
    is_commit: bool = False
    is_told: bool = False
    is_cut: bool = False


_current: ContextVar[Silence | None] = ContextVar("_current", default=None)
"""The one that watches this thread. Other threads of the process have connections of their own."""

_listened: WeakSet[Engine] = WeakSet()
_listening = threading.Lock()


def _listen(engine: Engine) -> None:
    """Have whoever watches a thread see its connections.

    The listeners stay: another thread may be calling them just when they are removed.
    """
    with _listening:
        if engine in _listened:
            return
        event.listen(engine, "do_connect", _asked("connect"))
        event.listen(engine.pool, "checkout", _asked("taken"))
        event.listen(engine.pool, "checkin", _asked("given_back"))
        event.listen(engine, "commit", _asked("committed"))
        _listened.add(engine)


def _asked(name: str) -> Callable[..., Any]:
    def listener(*given: Any) -> Any:
        silence = _current.get()
        return None if silence is None else getattr(silence, name)(*given)

    return listener


class Silence:
    """Watches the connections of a command, from a thread of its own."""

    def __init__(self, database: Database) -> None:
        self.gave_up = ""
        """What is known, if the command has given up."""
        self.is_bounded = False
        self._database = database
        self._was_silent = False
        self._waits = dict[object, _Wait]()
        self._ended = threading.Event()
        self._askers = dict[threading.Thread, tuple[int, int] | None]()  # each with its socket

    @contextmanager
    def watched(self) -> Iterator[Silence]:
        """Watch within the block what this thread does."""
        _listen(self._database.engine)
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        before = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(before)
            self._ended.set()
            watcher.join()
            self._end_askers()

    def connect(self, dialect: Any, _: object, args: Any, options: dict[str, Any]) -> Any:
        """Make a connection in SQLAlchemy's place."""
        is_asker = threading.current_thread() in self._askers
        if self.is_bounded or is_asker:
            for name, limit in self._limits(dialect.driver).items():
                own = options.get(name, limit)
                bounded = own if name == "connect_timeout" else min(own or limit, limit)
                options[name] = _AGAIN if self._was_silent else bounded
        if is_asker:
            return None
        self._waits[threading.current_thread()] = _Wait()
        try:
            return dialect.connect(*args, **options)
        finally:
            self._waits.pop(threading.current_thread())

    def _limits(self, driver: str) -> dict[str, float]:
        """Return what bounds the making of a connection, as its driver calls it."""
        if self._database.facts.is_file:
            return {}
        if driver in _IN_PYTHON:
            return {"connect_timeout": CONNECT, "read_timeout": MOST + _AGAIN}
        return {"connect_timeout": CONNECT}

    def taken(self, driver: Any, record: object, _: object) -> None:
        if (current := threading.current_thread()) in self._askers:
            self._askers[current] = _socket_of(driver)
        else:
            self._waits[record] = _Wait(driver=driver, way=_socket_of(driver))

    def given_back(self, _: object, record: object) -> None:
        self._waits.pop(record, None)

    def committed(self, connection: Connection) -> None:
        driver = connection.connection.dbapi_connection
        for one in list(self._waits.values()):
            if one.driver is driver:
                one.is_commit, one.since = True, time.monotonic()

    def _end_askers(self) -> None:
        """End what still asks; one that connects may take as long as that may."""
        for asker, way in self._askers.items():
            _cut(way)
            asker.join(2 * _AGAIN)

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK):
            for one in list(self._waits.values()):
                self._look(one)

    def _look(self, wait: _Wait) -> None:
        silent = time.monotonic() - wait.since
        if silent >= TOLD and not wait.is_told:
            wait.is_told = True
            self.tell(self._line(wait))
            if not self._was_silent and wait.driver is not None:
                asker = threading.Thread(target=self._ask, daemon=True)
                self._askers[asker] = None
                asker.start()
            self._was_silent = True
        if self.is_bounded and silent >= (AFTERWARDS if self.gave_up else MOST):
            self._give_up(wait)

    def _give_up(self, wait: _Wait) -> None:
        if wait.is_cut:
            return
        line, before = self._line(wait) + (_UNCONFIRMED if wait.is_commit else ""), self.gave_up
        self.gave_up = before or line  # first: the command reads it as soon as its driver raises
        wait.is_cut = _cut(wait.way)
        if not wait.is_cut:
            self.gave_up = before

    def _line(self, wait: _Wait) -> str:
        silent = time.monotonic() - wait.since
        missing = "has not confirmed the commit" if wait.is_commit else "has not answered"
        return f"the database {address_of(self._database.engine)} {missing} for {silent:.0f} s"

    def _ask(self) -> None:
        """Tell what it waits for, if the database says so: over another connection."""
        _current.set(self)
        for ask in (long_waits.commits, long_waits.holders):
            if not self._ended.is_set():
                for line in ask(self._database, 0.0):
                    self.tell(line)

    @staticmethod
    def tell(line: str) -> None:
        """Write a line to standard error, if it takes one."""
        with suppress(OSError, ValueError):  # a full disk, or a stream that is closed
            click.echo(f"outbox: {line}", err=True)


def _socket_of(driver: Any) -> tuple[int, int] | None:
    """Return the file descriptor of a connection's socket, and what knows it again; None of a file.

    It is asked in the thread that uses the connection: mysqlclient refuses any other.
    """
    owner = driver if hasattr(driver, "fileno") else getattr(driver, "_sock", None)
    try:
        number = owner.fileno() if owner is not None else -1
        return number, os.fstat(number).st_ino
    except Exception:  # noqa: BLE001  (a file, or the driver's own: it is lost, as is found out next)
        return None


def _cut(way: tuple[int, int] | None) -> bool:
    """End a connection beneath its driver, which then raises its error; return whether it can.

    One that is still being made has a limit of its own.
    """
    try:
        if way is None or os.fstat(way[0]).st_ino != way[1]:
            return False
        with socket.socket(fileno=os.dup(way[0])) as found:
            found.shutdown(socket.SHUT_RDWR)
    except OSError:  # the driver closes it just now
        return False
    return True


@contextmanager
def watched(context: click.Context, database: Database | None) -> Iterator[Silence | None]:
    """Watch a command's database, if it is known, within the block."""
    if database is None:
        yield None
        return
    silence = context.meta[_KEY] = Silence(database)
    told = ""
    try:
        with silence.watched():
            yield silence
    except click.ClickException as error:
        told = error.message
        raise
    finally:
        if silence.gave_up not in told:  # the command itself took it for any other error
            silence.tell(silence.gave_up)


def bounded(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Have a command give up where its database is silent for long.

    It is for those that ask or change little. Others may work for long in one statement.
    """

    @wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        silence = click.get_current_context().meta.get(_KEY)
        if silence is not None:
            silence.is_bounded = True
        return command(*args, **kwargs)

    return run
