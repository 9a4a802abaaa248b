"""Reads findings of several kinds as the rows of one statement, in one round trip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Integer,
    Row,
    Select,
    String,
    literal_column,
    null,
    select,
)

from ....domain.priority import Priority
from ....domain.scheduling.token_bucket import lag
from ...connection.database import Database
from ...control.pause import EVERYTHING, scope_of
from ...control.set_back.ahead import APART
from ...schema.clock import utc
from .lane_keys import ways


def finding(
    what: str,
    name: Any = "",
    priority: Any = 0,
    number: Any = 0,
    emails: Any = 0,
    moment: Any = None,
    first: Any = 0,
) -> Select[*tuple[Any, ...]]:
    """Return the statement for one kind of finding. All kinds have the same columns."""
    return select(
        constant(what).label("what"),
        _value(name).label("name"),
        _value(priority).label("priority"),
        _value(number).label("number"),
        _value(emails).label("emails"),
        (null() if moment is None else moment).label("moment"),
        _value(first).label("first"),
    )


def constant(value: int | str) -> ColumnElement[Any]:
    """Return a number or a fixed word as a literal in the statement's text.

    As parameters there would be dozens in one statement, which took longer to bind and plan than to
    run.
    """
    if isinstance(value, str):
        return literal_column(f"'{value}'", String)
    return literal_column(f"{value:d}", Integer)


def _value(value: Any) -> ColumnElement[Any]:
    return value if isinstance(value, ColumnElement) else constant(value)


def now(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for the database's time. It must be first: its types are all rows'."""
    return finding("now", moment=database.now())


def due_query(database: Database, *priorities: Priority) -> Select[*tuple[Any, ...]]:
    """Return the statement for the first email of each way. Its parameters are from `marked`."""
    way = ways(database, priorities or tuple(Priority)).subquery("way").c
    return finding("way", way.lane, way.priority, moment=way.due_at, first=way.id)


def lagging(database: Database, seconds: float) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield statements for buckets that lag by over `seconds`, or were taken from in the future.

    Bulk's own buckets are left out, because they close no lane.
    """
    bucket = database.tables.bucket.c
    late = (bucket.tat > database.now(seconds)) & bucket.name.not_like("%/bulk")
    yield finding("bucket", bucket.name, moment=bucket.tat).where(late)
    future = bucket.taken_at > database.now()
    yield finding("taken", bucket.name, moment=bucket.taken_at).where(late, future)


def pauses(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for the scopes that a person has paused."""
    return finding("pause", database.tables.pause.c.scope)


class Findings:
    """The rows of a statement of findings by their kind, and what follows from them."""

    def __init__(
        self,
        connection: Connection,
        statement: CompoundSelect[*tuple[Any, ...]],
        marks: Mapping[str, Any],
    ) -> None:
        self._rows = defaultdict[str, list[Row[Any]]](list)
        for row in connection.execute(statement, marks).all():
            self._rows[row.what].append(row)
        (clock,) = self._rows["now"]
        self.now: datetime = clock.moment  # as the driver gave it
        self._now = utc(self.now)

    def __getitem__(self, what: str) -> list[Row[Any]]:
        return self._rows[what]

    def age(self, moment: datetime) -> float:
        """Return the seconds that have passed since this moment; negative if it is yet to come."""
        return (self._now - utc(moment)).total_seconds()

    @property
    def lags(self) -> dict[str, float]:
        """The seconds until each bucket's permits are used up."""
        taken = {row.name: utc(row.moment) for row in self["taken"]}
        return {
            row.name: lag(utc(row.moment), taken.get(row.name), self._now) for row in self["bucket"]
        }

    @property
    def ahead(self) -> tuple[str, ...]:
        """The buckets that were last taken from while the clock was ahead of its time now."""
        return tuple(row.name for row in self["taken"] if self.age(row.moment) < -APART)

    @property
    def paused(self) -> frozenset[Priority]:
        """The priorities that are paused."""
        scopes = {row.name for row in self["pause"]}
        return frozenset(p for p in Priority if not scopes.isdisjoint((EVERYTHING, scope_of(p))))
