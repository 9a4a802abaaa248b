"""Reads findings of several kinds as the rows of one statement, in one round trip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from math import inf
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
    or_,
    select,
)

from ....domain.priority import Priority
from ....domain.scheduling.token_bucket import lag
from ...connection.database import Database
from ...control.pause import EVERYTHING, scope_of
from ...control.set_back.ahead import APART
from ...schema.clock import utc
from .lane_keys import ways

LONG = 60.0
"""Seconds from which on it matters whether a bucket is closed for longer than its rate allows."""


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
    """Yield statements for buckets that lag by over `seconds`, and for when some were taken from.

    That is told of buckets that were taken from in the future, or are closed for `LONG`. Bulk's own
    buckets are left out, because they close no lane.
    """
    bucket = database.tables.bucket.c
    late = (bucket.tat > database.now(seconds)) & bucket.name.not_like("%/bulk")
    yield finding("bucket", bucket.name, moment=bucket.tat).where(late)
    told = or_(bucket.taken_at > database.now(), bucket.tat > database.now(LONG))
    yield finding("taken", bucket.name, moment=bucket.taken_at).where(late, told)


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
        return self.lags_within({})

    def lags_within(self, debts: Mapping[str, float]) -> dict[str, float]:
        """Return the lags where each bucket owes no more than its `debts`: see `max_debt`."""
        taken = {row.name: utc(row.moment) for row in self["taken"] if row.moment is not None}
        return {
            name: lag(utc(tat), taken.get(name), self._now, most=debts.get(name, inf))
            for name, tat in ((row.name, row.moment) for row in self["bucket"])
        }

    @property
    def ahead(self) -> frozenset[str]:
        """The buckets that were last taken from while the clock was ahead of its time now."""
        return frozenset(row.name for row in self["taken"] if self._is_ahead(row.moment))

    def _is_ahead(self, moment: datetime | None) -> bool:
        return moment is not None and self.age(moment) < -APART

    @property
    def paused(self) -> frozenset[Priority]:
        """The priorities that are paused."""
        scopes = {row.name for row in self["pause"]}
        return frozenset(p for p in Priority if not scopes.isdisjoint((EVERYTHING, scope_of(p))))
