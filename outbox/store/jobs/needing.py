"""The emails of a status that needs a person, for the verb that retries all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from sqlalchemy import Connection, func, select

from ...domain.delivery.status import Status
from ...domain.jobs.order import Action, Order
from ...domain.search.filters import Filters
from ...domain.search.place import Place
from ..connection import list_parts
from ..connection.database import Database
from .walk import Ahead, Walk, beginning


def needing_person(
    database: Database, status: Status, progress: Callable[[int, int], object]
) -> Iterator[list[int]]:
    """Yield the ids of the emails that have this status now, in parts for one transaction each.

    An index leads to them, the newest first. An email that fails again meanwhile is not seen again.
    """
    order = Order(action=Action.RETRY, filters=Filters(status=status))
    total, done = database.read(partial(_count, database=database)), 0
    upto = database.read(partial(beginning, database=database))
    progress(0, total)
    place, is_end = upto, False
    while not is_end:

        def ahead(connection: Connection, after: Place = place) -> Ahead:
            walk = Walk(connection=connection, database=database, order=order, upto=upto)
            return walk.ahead(after, list_parts.PART)

        found = database.read(ahead)
        place, is_end = found.place, found.is_end
        if found.ids:
            yield list(found.ids)
        done += len(found.ids)
        progress(total if is_end else min(done, total), total)


def _count(connection: Connection, database: Database) -> int:
    """Return how many emails need a person, of each status that does."""
    since = database.tables.email.c.attention_at
    return connection.execute(select(func.count()).where(since.is_not(None))).scalar_one()
