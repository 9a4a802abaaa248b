"""Whether this outbox may send from where it is: it may be a copy, or a restored backup."""

from __future__ import annotations

from dataclasses import dataclass

MAX_INSTANCE = 64
"""The most characters of an instance's name."""

TAKEOVER = 900.0
"""Seconds within which another server may take over as the database, such as a promoted standby.
After a longer gap its tables count as a restored backup: results that they lack may be many."""

UNENDED = "`flask outbox restored` has not come to its end: run it again"

_REMEDY = (
    "if it is a copy or a restored backup, run `flask outbox restored`, which holds what waits;"
    " if it is the original, and only moved or was upgraded, run `flask outbox moved`"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabasePlace:
    """What a database says of itself. It may not tell: then a text is empty."""

    cluster: str = ""  # the same for all its databases: PostgreSQL's system identifier
    timeline: str = ""  # another one after another server took over
    home: str = ""  # the database, and the table in it
    is_standby: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """What the outbox's tables have noted of the instance that they belong to."""

    id: str
    name: str  # OUTBOX_INSTANCE when it was noted; "" if it was not set
    place: DatabasePlace
    idle: float = 0.0  # seconds since a process that may send was last seen
    is_holding: bool = False  # `restored` has begun, and not ended
    has_held: bool = False  # emails may be held since then

    def refusal(self, place: DatabasePlace, name: str) -> str | None:
        """Return why nothing may be sent from this place by an app of this name, or None."""
        if self.is_holding:
            return UNENDED
        found = self._other_name(place, name) or self._other_place(place)
        return f"nothing is sent: {found}; {_REMEDY}" if found else None

    def is_elsewhere(self, place: DatabasePlace) -> bool:
        """Return whether another server has taken over since the place was noted."""
        return _differ(self.place.timeline, place.timeline)

    def _other_name(self, place: DatabasePlace, name: str) -> str | None:
        if name == self.name:
            return None
        if self.name:
            # An app that lost its name may be a copy's as well: on SQLite nothing else tells.
            given = f"is {name!r}" if name else "is not set"
            return f"OUTBOX_INSTANCE {given}, but these tables are {self.name!r}'s"
        if self.place.cluster and self.place == place:  # the original, which gets a name
            return None
        return f"OUTBOX_INSTANCE is {name!r}, but these tables were made without a name"

    def _other_place(self, place: DatabasePlace) -> str | None:
        if _differ(self.place.cluster, place.cluster):
            return "these tables were last used on another database server"
        if _differ(self.place.home, place.home):
            return "these tables were last used in another database, or were loaded from a dump"
        if self.is_elsewhere(place) and self.idle > TAKEOVER:
            return (
                "the database was restored to an earlier moment, or another server took over more"
                f" than {TAKEOVER / 60:.0f} minutes after these tables were last used"
            )
        return None


def _differ(noted: str, now: str) -> bool:
    """Return whether both are known and not the same."""
    return bool(noted and now) and noted != now
