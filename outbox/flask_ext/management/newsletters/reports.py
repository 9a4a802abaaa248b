"""Which newsletters there are, and how far each has come: a bounded number of emails is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ....domain.config.enqueue_options import MAX_TAG, check_name
from ....store.records import Depth
from ....store.search.tag_progress import TagProgress, tag_progress
from ....store.search.tags import newsletter_tags
from ..arguments import one_id

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

IN_LIST = Depth(counted=200, sample=60, problems=2000)
OF_ONE = Depth(counted=10_000, sample=200, problems=5000)
"""A page of one newsletter can take the time for more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Newsletters:
    """A page of newsletters, the one with the newest email first."""

    newsletters: tuple[TagProgress, ...]
    next: int | None  # give it as `before` for the next page; None: there is none


def newsletters(runtime: Runtime, *, before: Any, limit: int) -> Newsletters:
    """Return the newsletters whose newest emails have ids below `before`."""
    database, below = runtime.database, None if before is None else one_id(before)

    def look(connection: Connection) -> Newsletters:
        found = newsletter_tags(connection, database)
        left = [one for one in found if below is None or one.last_id < below]
        shown = [one.tag for one in left[:limit]]
        return Newsletters(
            newsletters=tag_progress(connection, database, shown, IN_LIST),
            next=left[limit - 1].last_id if len(left) > limit else None,
        )

    return database.read(look)


def newsletter(runtime: Runtime, tag: Any) -> TagProgress | None:
    """Return how far the emails of one tag have come; None: there are none."""
    database, name = runtime.database, check_name("tag", tag, MAX_TAG)
    if name is None:
        return None
    found = database.read(lambda c: tag_progress(c, database, [name], OF_ONE))
    return next(iter(found), None)
