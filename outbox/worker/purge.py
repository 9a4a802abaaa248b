"""Purges a little at a time, so that email never waits long for a process that purges."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial

from ..domain.config.retention import Retention
from ..domain.errors import ConfigurationError, RowsLocked
from ..store.connection.error_codes import ANSWERS, describe, is_missing_table, is_refusal
from ..store.control import lease
from ..store.control.fleet import purge_workers
from ..store.control.forgotten_servers import purge_servers
from ..store.jobs.forget import purge_jobs
from ..store.retention.mark import LEASE, PurgeUnderWay
from ..store.retention.purge import Removed, purge
from ..store.rollup.purge import purge_figures
from .capacity.claimable import gives_way
from .process import shutdown
from .process.runtime import Runtime

_log = logging.getLogger("outbox")

SECONDS = 5.0
"""The task ends after this time and beat's next one goes on: a backlog never keeps a process."""
POLL = 0.5
"""Seconds between two checks whether another purge has ended."""
REST = 9.0
"""While emails are sent, a person's purge rests so many times as long as each step took. So it
has a database of one writer, as SQLite, for a tenth of the time, and the workers keep the rest."""
LONGEST_REST = LEASE / 2
"""Seconds. A longer rest would end the lease, which each step renews."""


def purge_briefly(runtime: Runtime) -> Removed:
    """Remove emails and bodies past their retention, and end soon; return how many were removed.

    First it removes halted servers that are no longer configured, old figures, old jobs, and the
    rows of workers that have not been seen for a day. It ends after `SECONDS`, when urgent email
    waits for a process, or when the worker stops. The next purge goes on where this one ended.
    """
    total, settings = Removed(), runtime.settings
    bodies = settings.body_retention
    try:
        if runtime.instance.refusal():
            return total  # of a copy nothing is removed before a person has looked at it
        _purge_other_rows(runtime)
        _purge_figures_briefly(runtime)
        purging = purge(runtime.database, settings.retention, body_retention=bodies)
        with closing(purging) as chunks:
            began = runtime.clock()
            for removed in chunks:
                total = total.plus(removed)
                spent = runtime.clock() - began
                if spent > SECONDS or shutdown.requested() or gives_way(runtime).gives_way:
                    break
    except PurgeUnderWay:
        pass  # the other purge does the work
    except ANSWERS as error:
        if is_refusal(error) or is_missing_table(error):
            raise
        _log.warning("outbox: the database failed in a purge (%s)", describe(error))
    return total


def _purge_figures_briefly(runtime: Runtime) -> None:
    """Remove old figures, for a part of the time: the emails are more.

    If another transaction has locked one, a later purge removes them.
    """
    began = runtime.clock()
    with suppress(RowsLocked):
        for _ in purge_figures(runtime.database):
            if runtime.clock() - began > SECONDS / 5 or shutdown.requested():
                return


def _purge_other_rows(runtime: Runtime) -> None:
    purge_servers(runtime.database, [server.name for server in runtime.servers])
    for step in (purge_workers, purge_jobs):
        with suppress(RowsLocked):  # a later purge removes them; see `_purge_figures_briefly`
            step(runtime.database)


def purge_all(
    runtime: Runtime,
    *,
    older_than: float | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Removed]:
    """Purge until nothing is left to remove; yield what each transaction removed.

    `older_than` is the age in seconds for emails of every status; None: OUTBOX_RETENTION. It gives
    way to batches in flight: a million emails take minutes, and nobody waits for them. If another
    purge is under way, or has taken over the lease of this one, it waits for that one's end, or for
    the end of its lease if it died. Raises PurgeUnderWay if the other takes longer, as when a
    person purges, too, and ConfigurationError in a copy of the outbox.
    """
    if refusal := runtime.instance.refusal():
        raise ConfigurationError(refusal)
    settings = runtime.settings
    retention = settings.retention if older_than is None else Retention.of_all(older_than)
    refused: float | None = None  # since when, without a chunk since then
    _purge_other_rows(runtime)
    while True:
        try:
            purging = purge(
                runtime.database,
                retention,
                body_retention=settings.body_retention,
                usual=settings.retention,
            )
            with closing(purging) as chunks:
                for removed in _gently(runtime, chunks, pause):
                    refused = None
                    yield removed
        except PurgeUnderWay:
            now = runtime.clock()
            refused = now if refused is None else refused
            if now - refused > LEASE + SECONDS:
                raise
            pause(POLL)
        else:
            return


def _gently(
    runtime: Runtime, chunks: Iterator[Removed], pause: Callable[[float], None]
) -> Iterator[Removed]:
    """Yield what each step removed, and rest after it while emails are sent."""
    database = runtime.database
    is_sending = partial(lease.is_any, database=database)
    began = runtime.clock()
    for removed in chunks:
        took = runtime.clock() - began
        yield removed
        if database.read(is_sending):
            pause(min(REST * took, LONGEST_REST))
        began = runtime.clock()
