"""Keeps a process's row in the table of the workers, on a thread of its own.

The thread can neither delay nor end the process. A database that stands still holds up this thread
alone, and an error is one line in the log. The process may fork at any moment: the thread has an
engine of its own, which no child uses, and no connection between two renewals. On SQLite alone a
fork waits for the end of a renewal.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

from sqlalchemy import Connection

from ...store.bounded_waits import run_locally
from ...store.connection.database import Database
from ...store.connection.error_codes import describe
from ...store.connection.lone_engine import lone_engine
from ...store.control import fleet
from ..forks import without_forks
from ..process import shutdown
from ..process.runtime import Runtime
from ..process.steady_clock import steady
from .deaths import Deaths
from .long_waits import LongWaits

_log = logging.getLogger("outbox")

LOOK = 1.0
"""Seconds between two looks whether the process was asked to stop, or another one has ended."""

FAREWELL = 2.0
"""Seconds for which the end of the process waits until its row says so."""


_NO_THREAD = (
    "this process cannot write itself down: no thread can be started. It does its work, but"
    " `flask outbox workers`, check and health miss it: raise the host's limit of processes and"
    " threads, and start it again"
)
_ROW = "the row of this process was not written"
_WAITS = "it was not looked at what statements wait for"
_SLOTS = "the slots of processes that have ended were not freed"


class Member(Protocol):
    """What has a row: a worker or a beat."""

    def row(self) -> dict[str, Any]:
        """Return what stays as it is: who it is, its version and its settings."""

    def changes(self) -> Mapping[str, Any]:
        """Return what may change from renewal to renewal: its queues, its size, its tasks."""

    def is_well(self) -> bool:
        """Return whether the process does its work; its row is not renewed while it does not."""

    def children(self) -> Iterable[int]:
        """Return the ids of the processes that run its batches."""


class Presence:
    """Writes a member's row at its start, renews it every `every` seconds, and notes its end."""

    def __init__(self, runtime: Runtime, member: Member, *, every: float) -> None:
        found = runtime.database
        self._engine = lone_engine(found.engine)
        self._database = Database(
            self._engine, runtime.tables, offset=found.offset, patience=found.patience
        )
        self._member = member
        self._slots = runtime.slots
        self._tasks = runtime.last_tasks
        self._deaths = Deaths(member.children)
        self._waits = LongWaits(self._database)
        self._every = every
        self._id = uuid4()
        self._failing = set[str]()  # what was undone the last time: an outage is logged once
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox-presence", daemon=True)

    def start(self) -> None:
        """Begin to write the row; return at once.

        Where the host lets this process start no thread, it does its work without a row.
        """
        try:
            self._thread.start()
        except RuntimeError:
            _log.warning("outbox: %s", _NO_THREAD)

    def end(self) -> None:
        """Have the row say that the process stops, and wait a moment for it."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(FAREWELL)

    def _run(self) -> None:
        while not self._must_end():
            self._safely(_WAITS, self._waits.look)  # first, as the renewal may wait, too
            if is_well := self._member.is_well():
                self._safely(_ROW, self._renew)
                # Where the row cannot be written, the tasks leave their marks themselves.
                self._tasks.carry(is_well=_ROW not in self._failing)
            self._rest(self._every if is_well else LOOK)
        self._tasks.carry(is_well=False)
        self._safely(_ROW, lambda: run_locally(self._database, self._leave))

    def _rest(self, seconds: float) -> None:
        until = steady() + seconds
        while not self._must_end() and (left := until - steady()) > 0:
            self._ended.wait(min(LOOK, left))
            self._look_for_the_dead()

    def _look_for_the_dead(self) -> None:
        try:
            are_due = self._deaths.are_due()
        except Exception as error:  # noqa: BLE001  (Celery's pool may change while it is read)
            _log.debug("outbox: the processes of this host were not seen (%s)", describe(error))
            return
        if are_due:
            self._safely(_SLOTS, lambda: self._database.run(self._free_slots))

    def _must_end(self) -> bool:
        return self._ended.is_set() or shutdown.requested()

    def _safely(self, undone: str, write: Callable[[], None]) -> None:
        with without_forks() if self._database.facts.one_writer else nullcontext():
            try:
                write()
            except Exception as error:  # noqa: BLE001  (whatever it is, the worker goes on)
                if undone not in self._failing:
                    _log.warning("outbox: %s (%s)", undone, describe(error))
                self._failing.add(undone)
            else:
                self._failing.discard(undone)
            finally:
                self._engine.dispose()

    def _renew(self) -> None:
        changes, told = self._member.changes(), self._tasks.told()
        renew = partial(fleet.renew_and_look, self._database, self._id, changes, told)
        # A renewal first, each time: the row may be there although its insert failed, and may be
        # gone, removed as that of a worker that was not seen for a day.
        if (living := renew()) is None:
            row = {**self._member.row(), **changes}
            enter = partial(fleet.enter, database=self._database, worker=self._id, row=row)
            run_locally(self._database, enter)
            living = renew() or []
        self._slots.tell(sum(worker.slots for worker in living))
        self._deaths.watch(worker.process for worker in living)

    def _free_slots(self, connection: Connection) -> None:
        self._deaths.free_slots(connection, self._database)

    def _leave(self, connection: Connection) -> None:
        fleet.leave(connection, self._database, self._id)
