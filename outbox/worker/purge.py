"""Purges a little at a time, so that email never waits long for a process that purges."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from ..domain.errors import ConfigurationError
from ..store.connection.error_codes import ANSWERS, describe, is_missing_table, is_refusal
from ..store.control import fleet
from ..store.control.forgotten_servers import forget
from ..store.queries.sweep.preemption import should_yield_to_urgent
from ..store.rollup.prune import prune
from ..store.transitions.purge import LEASE, PurgeUnderWay, purge
from .process import shutdown
from .process.runtime import Runtime

_log = logging.getLogger("outbox")

SECONDS = 5.0
"""The task ends after this time and beat's next one goes on: a backlog never keeps a process."""
POLL = 0.5
"""Seconds between two checks whether another purge has ended."""


def purge_briefly(runtime: Runtime) -> int:
    """Remove emails past their retention, and end soon; return how many were removed.

    First it removes halted servers that are no longer configured, old figures, and the rows of
    workers that have not been seen for a day. It ends after `SECONDS`, when urgent email waits for
    a process, or when the worker stops. The next purge goes on where this one ended.
    """
    total = 0
    try:
        if runtime.instance.refusal():
            return total  # of a copy nothing is removed before a person has looked at it
        _forget(runtime)
        _prune_figures(runtime)
        with closing(purge(runtime.database, older_than=runtime.settings.retention)) as chunks:
            began = runtime.clock()
            for removed in chunks:
                total += removed
                spent = runtime.clock() - began
                if spent > SECONDS or shutdown.requested() or _gives_way(runtime):
                    break
    except PurgeUnderWay:
        pass  # the other purge does the work
    except ANSWERS as error:
        if is_refusal(error) or is_missing_table(error):
            raise
        _log.warning("outbox: the database failed in a purge (%s)", describe(error))
    return total


def _prune_figures(runtime: Runtime) -> None:
    """Remove old figures, for a part of the time: the emails are more."""
    began = runtime.clock()
    for _ in prune(runtime.database):
        if runtime.clock() - began > SECONDS / 5 or shutdown.requested():
            return


def _forget(runtime: Runtime) -> None:
    forget(runtime.database, [server.name for server in runtime.servers])
    fleet.forget(runtime.database)


def _gives_way(runtime: Runtime) -> bool:
    slots, routes = runtime.slots(), runtime.routes
    return should_yield_to_urgent(runtime.database, runtime.lanes, slots=slots, routes=routes)


def purge_all(
    runtime: Runtime, *, older_than: float, pause: Callable[[float], None] = time.sleep
) -> Iterator[int]:
    """Purge until nothing is left to remove; yield how many emails each transaction removed.

    Where another purge is under way, it waits for its end, or for the end of its lease if it died.
    Raises PurgeUnderWay where the other takes longer, as when a person purges, too. Raises
    ConfigurationError in a copy of the outbox.
    """
    if refusal := runtime.instance.refusal():
        raise ConfigurationError(refusal)
    patience = runtime.clock() + LEASE + SECONDS
    _forget(runtime)
    while True:
        try:
            yield from purge(runtime.database, older_than=older_than)
        except PurgeUnderWay:
            if runtime.clock() > patience:
                raise
            pause(POLL)
        else:
            return
