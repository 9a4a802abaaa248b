"""Removes what jobs say of people, and jobs that are long over."""

from __future__ import annotations

import json

from sqlalchemy import Connection, delete, select, update

from ...domain.config.search_terms import Term
from ...domain.jobs.order import JobState
from ..bounded_waits import run_bounded
from ..connection.database import Database
from ..connection.row_locks import locking
from ..encryption.cipher import MissingKey
from ..erasure.naming import names, stands_in
from . import row as rows

KEPT = 30 * 86_400.0
"""Seconds for which a job that does not run is kept. The audit keeps what it did."""


def forget_person(connection: Connection, database: Database, address: str) -> None:
    """End each job with a filter that names the address, and remove the filter.

    Filters that cannot be decrypted may name it, so they are removed, too.
    """
    job = database.tables.job
    for row in connection.execute(locking(select(job), job)).all():
        filters: dict[str, str | None] = json.loads(row.filters)
        naming = {name: None for name, text in filters.items() if _is_about(name, text, address)}
        if not naming and not _is_sealed_about(database, row, address):
            continue
        values = {"filters": json.dumps(filters | naming, sort_keys=True), **rows.FORGOTTEN}
        if row.state != JobState.DONE.value:
            over = {"state": JobState.DONE.value, "finished_at": database.now()}
            values |= over | {"reason": "ended, because its filter named an erased person"}
        connection.execute(update(job).where(job.c.id == row.id).values(**values))


def purge_jobs(database: Database) -> int:
    """Remove the jobs that have not run for KEPT seconds; return how many.

    Raises RowsLocked if a row stays locked.
    """
    job = database.tables.job
    over = (job.c.state != JobState.RUNNING.value) & (job.c.updated_at < database.now(-KEPT))
    if database.read(lambda connection: connection.execute(select(job.c.id).where(over)).first()):
        old = delete(job).where(over)
        return run_bounded(database, lambda connection: connection.execute(old).rowcount)
    return 0


def _is_sealed_about(database: Database, row: object, address: str) -> bool:
    try:
        found = rows.personal(database, row)  # type: ignore[arg-type]
    except (MissingKey, ValueError):
        return True
    return any(_is_about(name, text, address) for name, text in found.items())


def _is_about(name: str, text: str | None, address: str) -> bool:
    """Return whether a filter names the address; a recipient is one address and no more.

    A job that ends too early is told so, and can be started again. An address that stays cannot.
    """
    return names(text, address) if name == Term.RECIPIENT else stands_in(text, address)
