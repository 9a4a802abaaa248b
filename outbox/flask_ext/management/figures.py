"""The figures of the outbox: how many emails there are, how far they are, what became of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...domain.config.enqueue_options import MAX_TAG, check_name
from ...domain.figures.figures import Figures
from ...domain.figures.spans import Period
from ...store.queries import progress as progress_queries
from ...store.queries import reports, waiting
from ...store.queries.server_status import server_statuses
from ...store.report_records import Backlog, Progress, ServerStatus, Stats
from ...store.rollup.read import read_figures

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


def stats(runtime: Runtime) -> Stats:
    """Return how many emails there are, what waits, and what is wrong."""
    database, names = runtime.database, [server.name for server in runtime.servers]
    found = database.read(lambda connection: reports.stats(connection, database, names))
    redirect_to = runtime.settings.redirect_to or None
    return replace(found, redirect_to=redirect_to, suppressed=runtime.sending_is_off())


def progress(runtime: Runtime, tag: Any) -> Progress:
    """Return how far the emails of a tag have come, or all emails."""
    database, term, name = runtime.database, runtime.settings.lease, check_name("tag", tag, MAX_TAG)
    return database.read(
        lambda c: progress_queries.progress(c, database, lease_seconds=term, tag=name)
    )


def backlog(runtime: Runtime) -> Backlog:
    """Return how many emails wait and are in flight, counted up to a limit."""
    database = runtime.database
    return database.read(lambda connection: waiting.backlog(connection, database))


def due(runtime: Runtime) -> int:
    """Return how many emails are due. Unlike `stats` it counts no other ones."""
    database = runtime.database
    return database.read(lambda connection: waiting.due(connection, database))


def servers(runtime: Runtime) -> tuple[ServerStatus, ...]:
    """Return how the servers stand."""
    database, names = runtime.database, [server.name for server in runtime.servers]
    return database.read(lambda connection: server_statuses(connection, database, names))


def attempts(runtime: Runtime, last: Any, now: datetime | None = None) -> Figures:
    """Return what became of the attempts of the last hour, day or week.

    `now`: the database's time, where it was read just before.
    """
    database, period = runtime.database, Period.of(last)
    return database.read(lambda connection: read_figures(connection, database, period, now))
