"""Sees which processes of this host have ended, and has their batches give up their slots at once.

The kernel is asked each second, and the database only after a process has ended. A batch's emails
are judged no earlier for that. Of another host, or of another container, nothing is known: there a
batch keeps its slot until its lease runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy import Connection

from ...domain.fleet import ProcessId
from ...store.connection.database import Database
from ...store.control import lease
from ..process.own_process import has_ended, process_of, this_boot

_LOOKS = 2
"""Looks after a death. The first may come before the dead process's last commit is done."""


class Deaths:
    """Watches this worker's `children` and the other workers of this host."""

    def __init__(self, children: Callable[[], Iterable[int]]) -> None:
        self._children = children
        self._watched: set[ProcessId] = set()
        self._looks = _LOOKS  # a worker that starts asks for the batches of those before it

    def watch(self, processes: Iterable[ProcessId]) -> None:
        """Watch these processes, too, until they end."""
        self._watched.update(one for one in processes if one.boot == this_boot())

    def are_due(self) -> bool:
        """Return whether `free_slots` is to be called: a watched process has ended."""
        self.watch(filter(None, map(process_of, self._children())))
        ended = set(filter(has_ended, self._watched))
        self._watched -= ended
        if ended:
            self._looks = _LOOKS
        return self._looks > 0

    def free_slots(self, connection: Connection, database: Database) -> None:
        """Have the leases of the ended processes of this host run out; watch the others."""
        self._looks -= 1  # an error is not met again each second: the lease runs out by itself
        leases = lease.of_boot(connection, database, this_boot())
        if over := [token for token, process in leases.items() if has_ended(process)]:
            lease.let_run_out(connection, database, over)
        self.watch(leases.values())  # the children of a dead worker may live a little longer
