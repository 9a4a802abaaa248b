"""The row of the instance: it is read, written for the first time, and kept up to date."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, select, update

from ...domain.instance import DatabasePlace, Instance
from ..backend import backend_of
from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..connection.shared_rows import update_free_alone
from ..schema.clock import utc

EVERY = 60.0
"""Seconds from one note that a process may send to the next, over all processes."""


def place(connection: Connection, database: Database) -> DatabasePlace:
    """Return what the database says of itself; nothing, if it has nothing that can be relied on."""
    own = backend_of(database.dialect).place
    if own is None:
        return DatabasePlace()
    return own(connection, database.name(database.tables.instance))


def read(connection: Connection, database: Database) -> Instance | None:
    """Return what is noted of the instance, or None if no process has sent yet."""
    table = database.tables.instance
    row = connection.execute(select(table, database.now().label("now"))).one_or_none()
    if row is None:
        return None
    return Instance(
        id=row.instance,
        name=row.name,
        place=DatabasePlace(cluster=row.cluster, timeline=row.timeline, home=row.home),
        idle=(utc(row.now) - utc(row.seen_at)).total_seconds(),
        is_holding=row.holding_at is not None,
        has_held=row.held_at is not None,
    )


def make(connection: Connection, database: Database, place: DatabasePlace, name: str) -> None:
    """Write the row, unless another process has just written it."""
    now = {key: database.now() for key in ("made_at", "seen_at")}
    values = _noted(place, name) | now
    insert_if_absent(connection, database.tables.instance, id=1, instance=str(uuid4()), **values)


def keep(database: Database, noted: Instance, **changes: Any) -> None:
    """Note that a process may send, with `changes`; leave it if another has the row right now."""
    table = database.tables.instance
    mine = table.c.instance == noted.id
    update_free_alone(database, table, mine, seen_at=database.now(), **changes)


def renew(
    connection: Connection, database: Database, place: DatabasePlace, name: str, **changes: Any
) -> None:
    """Give the outbox a new id, and note this place and name, where the row may be missing."""
    make(connection, database, place, name)
    moments = {key: database.now() for key in ("made_at", "seen_at")}
    values = {"instance": str(uuid4()), **_noted(place, name), **moments, **changes}
    connection.execute(update(database.tables.instance).values(values))


def change(connection: Connection, database: Database, **values: Any) -> None:
    """Change what is noted of the holding."""
    connection.execute(update(database.tables.instance).values(values))


def _noted(place: DatabasePlace, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "cluster": place.cluster,
        "timeline": place.timeline,
        "home": place.home,
    }
