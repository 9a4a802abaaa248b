"""The verbs that show emails: one with all details, or the newest ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ...domain.config.enqueue_options import MAX_TAG, check_name
from ...domain.delivery.status import Status
from ...store.queries import reports
from ...store.report_records import EmailDetails, EmailSummary
from ...worker.why_waiting import why_waiting
from .arguments import limit_of, one_id, status_of

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


def get(runtime: Runtime, id: Any) -> EmailDetails | None:  # noqa: A002
    """Return one email with all details, or None."""
    database, wanted = runtime.database, one_id(id)

    def look(connection: Connection) -> EmailDetails | None:
        found = reports.detail(connection, database, wanted)
        if found is None:
            return None
        return replace(found, waits=why_waiting(connection, runtime, found))

    return database.read(look)


def newest(runtime: Runtime, *, status: Any, tag: Any, limit: Any) -> tuple[EmailSummary, ...]:
    """Return the newest emails first, of one status or tag or of all."""
    wanted = None if status is None else status_of("status", status, tuple(Status))
    name = check_name("tag", tag, MAX_TAG)
    most, database = limit_of(limit), runtime.database
    return database.read(
        lambda connection: reports.listing(
            connection, database, status=wanted, tag=name, limit=most
        )
    )
