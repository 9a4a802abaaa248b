"""Purging a little at a time: nobody waits long for a process that purges."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from ..store.connection.error_codes import ANSWERS, describe, is_refusal
from ..store.control.forgotten_servers import forget
from ..store.queries.preemption import should_yield_to_urgent
from ..store.transitions.purge import LEASE, PurgeUnderWay, purge
from .process import shutdown
from .process.runtime import Runtime

_log = logging.getLogger("outbox")

SECONDS = 5.0
"""After which the task ends. Beat's next trigger goes on: a backlog never keeps a process."""
POLL = 0.5
"""Seconds between two looks whether another purge has ended."""


def purge_briefly(runtime: Runtime) -> int:
    """Remove emails past their retention, and end soon; return how many were removed.

    Halted servers that nobody configures any more go first. It ends after some seconds, for urgent
    email that waits for a process, and for a stop of the worker. The next one goes on where it
    ended.
    """
    total = 0
    try:
        forget(runtime.database, [server.name for server in runtime.servers])
        with closing(purge(runtime.database, older_than=runtime.settings.retention)) as chunks:
            began = runtime.clock()
            for removed in chunks:
                total += removed
                spent = runtime.clock() - began
                if spent > SECONDS or shutdown.requested() or _gives_way(runtime):
                    break
    except PurgeUnderWay:
        pass  # it does the work of both
    except ANSWERS as error:
        if is_refusal(error):
            raise
        _log.warning("outbox: the database failed in a purge (%s)", describe(error))
    return total


def _gives_way(runtime: Runtime) -> bool:
    slots, routes = runtime.settings.slots, runtime.routes
    return should_yield_to_urgent(runtime.database, runtime.lanes, slots=slots, routes=routes)


def purge_all(
    runtime: Runtime, *, older_than: float, pause: Callable[[float], None] = time.sleep
) -> Iterator[int]:
    """Purge until nothing is left to be removed; yield how many were after each transaction.

    Where another purge is under way it waits for that to end, or for the lease of one that died.
    Raises PurgeUnderWay where the other takes longer: then a person purges too.
    """
    patience = runtime.clock() + LEASE + SECONDS
    forget(runtime.database, [server.name for server in runtime.servers])
    while True:
        try:
            yield from purge(runtime.database, older_than=older_than)
        except PurgeUnderWay:
            if runtime.clock() > patience:
                raise
            pause(POLL)
        else:
            return
