"""Examines whether a process may send: the row of the instance, and what the database says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from ...domain.instance import DatabasePlace, Instance
from ..connection.database import Database
from . import row


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """What was found. Without a row no process has sent yet, and any may."""

    place: DatabasePlace
    instance: Instance | None
    refusal: str | None = None  # why nothing may be sent, and the remedy

    @property
    def is_taken_over(self) -> bool:
        """Whether another server has taken over as the database since the last note."""
        return self.instance is not None and self.instance.is_elsewhere(self.place)


def look(database: Database, name: str) -> Examination:
    """Examine, and write nothing. `name` is OUTBOX_INSTANCE of the app."""

    return database.read(lambda connection: look_on(connection, database, name))


def look_on(connection: Connection, database: Database, name: str) -> Examination:
    """Examine over this connection, which is in autocommit, and write nothing."""
    place = row.place(connection, database)
    found = row.read(connection, database)
    refusal = None if found is None else found.refusal(place, name)
    return Examination(place=place, instance=found, refusal=refusal)


def admit(database: Database, name: str) -> Examination:
    """Examine for a process that is about to send; note the place if it is the first one."""
    found = look(database, name)
    if found.instance is None:
        place = found.place
        database.run(lambda connection: row.make(connection, database, place, name))
        found = look(database, name)
    return found


def keep(database: Database, name: str, found: Examination) -> None:
    """Note, after each minute, that the instance lives, and what is new about its place."""
    noted = found.instance
    if noted is None or found.refusal is not None or found.place.is_standby:
        return
    place = DatabasePlace(
        cluster=found.place.cluster or noted.place.cluster,
        timeline=found.place.timeline or noted.place.timeline,
        home=found.place.home or noted.place.home,
    )
    now = replace(noted, place=place, name=name or noted.name)
    if noted.idle < row.EVERY and now == noted:
        return
    changes = {
        "name": now.name, "cluster": place.cluster, "timeline": place.timeline, "home": place.home
    }  # fmt: skip
    row.keep(database, noted, **changes)
