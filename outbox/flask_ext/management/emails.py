"""The verbs that find emails: one with all details, a page of them, or those with problems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ...domain.errors import InvalidMessage
from ...domain.scheduling.lanes import route_of_lane
from ...domain.search.filters import UNINDEXED, Filters
from ...domain.search.place import read_place
from ...store.queries import reports
from ...store.queries.server_status import server_statuses
from ...store.report_records import EmailDetails, EmailPage, Problems, RefusedContents, ServerStatus
from ...store.search.fill import fill, last_id
from ...store.search.page import page
from ...store.search.problems import MOST_LOOKED_AT
from ...store.search.problems import problems as grouped
from ...store.search.refused_contents import refused_contents
from ...worker.why_waiting import why_waiting
from .arguments import OnProgress, limit_of, one_id

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime

MOST_ON_PAGE = 1000


def get(runtime: Runtime, id: Any) -> EmailDetails | None:  # noqa: A002
    """Return one email with all details, or None."""
    database, wanted = runtime.database, one_id(id)

    def look(connection: Connection) -> EmailDetails | None:
        found = reports.detail(connection, database, wanted)
        if found is None:
            return None
        return replace(found, waits=why_waiting(connection, runtime, found))

    return database.read(look)


def refuse_encrypted(runtime: Runtime, filters: Mapping[str, Any]) -> None:
    """Raise InvalidMessage for a search by subject where subjects are encrypted."""
    if filters.get("subject") is not None and runtime.settings.encryption_keys:
        raise InvalidMessage("subject", f"{UNINDEXED}, because subjects are encrypted")


def found(runtime: Runtime, *, after: Any, limit: Any, **filters: Any) -> EmailPage:
    """Return a page of the emails that fulfil these filters, newest first."""
    refuse_encrypted(runtime, filters)
    chosen = Filters.check(runtime.settings.indexed, **filters)
    place, most, database = read_place(after), limit_of(limit, MOST_ON_PAGE), runtime.database
    return database.read(lambda connection: page(connection, database, chosen, place, most))


def problems(runtime: Runtime, limit: Any, newest: Any) -> Problems:
    """Return what needs a person, grouped by what went wrong."""
    most, database = limit_of(limit, MOST_ON_PAGE), runtime.database
    among = limit_of(newest, MOST_LOOKED_AT, name="newest")
    return database.read(lambda connection: grouped(connection, database, most, among))


def contents_refused(
    connection: Connection,
    runtime: Runtime,
    servers: Iterable[ServerStatus] | None = None,
    failed: int | None = None,
) -> tuple[RefusedContents, ...]:
    """Return the servers that refuse many emails for their contents just now.

    `failed`: how many emails failed lately, where the caller knows it.
    """
    database = runtime.database
    if servers is None:
        names = [one.name for one in runtime.servers]
        servers = server_statuses(connection, database, names)

    def servers_of(lane: str) -> Collection[str]:
        return {one.name for one in runtime.routes.servers_of(route_of_lane(lane))}

    least = runtime.settings.refused_alike
    return refused_contents(
        connection, database, servers, least=least, failed=failed, servers_of=servers_of
    )


def index(runtime: Runtime, progress: OnProgress) -> int:
    """Index emails that were written before they could be found; return how many were locked."""
    database, locked, done = runtime.database, 0, 0
    total = database.read(lambda connection: last_id(connection, database))
    progress(0, total)
    for step in fill(database, runtime.settings.indexed):
        done, locked = done + step.passed, locked + step.locked
        progress(min(done, total), total)
    return locked
