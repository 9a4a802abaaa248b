"""What a sweep has to do, found out in one statement; and whether urgent mail waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    exists,
    func,
    literal,
    null,
    select,
    union_all,
)

from ..domain.claims import AHEAD, Due, Flight, Way
from ..domain.lanes import Lanes
from ..domain.priority import Priority
from ..domain.servers import ServerSettings
from . import breaker
from .clock import utc
from .database import Database
from .expire import expired
from .low_water import Mark, beyond, values


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The state of the outbox as a sweep sees it."""

    due: Mapping[Way, Due]  # where mails wait that may go: no paused priority, no closed lane
    first: Mapping[Way, Mark]  # of those, where to start looking for them
    flight: Mapping[Way, Flight]  # leases that hold, whether their task has started or not
    lags: Mapping[str, float]  # of the buckets that were ever taken from
    strays: tuple[str, ...]  # lanes with mails that the settings do not name
    overdue: bool  # a lease has run out
    expired: bool  # a waiting mail's time has run out
    servers: Mapping[str, int | None]  # by name: as `breaker.limit` says

    @property
    def in_flight(self) -> int:
        """Batches in flight."""
        return sum(flight.batches for flight in self.flight.values())


def survey(
    database: Database,
    lanes: Lanes,
    servers: Sequence[ServerSettings],
    *,
    limit: int,
    since: Mapping[Way, Mark] = MappingProxyType({}),
) -> Survey:
    """Look at everything that a sweep decides by. Counting stops at `limit` a lane and priority.

    Due mails that stand before their mark in `since` are not looked at.
    """
    key = (lanes, lanes.names, tuple(servers), limit, tuple(sorted(since)))
    statement = database.built(_statement, *key)
    found: dict[str, list[Any]] = {}
    for row in database.read(lambda c: c.execute(statement, values(since)).all()):
        found.setdefault(row.what, []).append(row)
    (clock,) = found["now"]

    def seconds_since(moment: datetime) -> float:
        return (utc(clock.moment) - utc(moment)).total_seconds()

    return Survey(
        due={
            (row.name, Priority(row.priority)): Due(mails=row.number, age=seconds_since(row.moment))
            for row in found["due"]
            if row.number
        },
        first={
            (row.name, Priority(row.priority)): Mark(row.moment, row.first)
            for row in found["due"]
            if row.number
        },
        flight={
            (row.name, Priority(row.priority)): Flight(batches=row.number, mails=int(row.mails))
            for row in found.get("flight", ())
        },
        lags={row.name: -seconds_since(row.moment) for row in found.get("bucket", ())},
        servers={row.name: row.number for row in found["server"]},
        strays=tuple(row.name for row in found["stray"] if row.name is not None),
        **{name: bool(found[name][0].number) for name in _FLAGS},
    )


_FLAGS = ("overdue", "expired")


def _statement(
    database: Database,
    lanes: Lanes,
    _: tuple[str, ...],
    servers: tuple[ServerSettings, ...],
    limit: int,
    marked: Collection[Way],
) -> CompoundSelect[*tuple[Any, ...]]:
    return survey_statement(database, lanes, servers, limit, marked)


def survey_statement(
    database: Database,
    lanes: Lanes,
    servers: Sequence[ServerSettings],
    limit: int,
    marked: Collection[Way] = (),
) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the one statement of a sweep that finds nothing to do."""
    now, lease = database.now(), database.tables.lease.c
    return union_all(
        _row("now", moment=now),
        _flag("overdue", lease.expires_at <= now),
        _flag("expired", expired(database), database.tables.email.c.expires_at),
        *(_row("server", s.name, number=breaker.limit(database, s.name)) for s in servers),
        *(
            _due(database, lanes, (lane, priority), limit, is_marked=(lane, priority) in marked)
            for lane in lanes.names
            for priority in Priority
        ),
        # A lease that has run out holds no slot: its worker is most likely dead.
        _row("flight", lease.lane, lease.priority, func.count(), func.sum(lease.mails))
        .where(lease.expires_at > now)
        .group_by(lease.lane, lease.priority),
        *_buckets(database, lanes, servers),
        *_strays(database, lanes),
    )


def _row(
    what: str,
    name: Any = "",
    priority: Any = 0,
    number: Any = 0,
    mails: Any = 0,
    moment: Any = None,
    first: Any = 0,
) -> Select[*tuple[Any, ...]]:
    """Return one kind of finding; all kinds have the same columns."""
    return select(
        literal(what).label("what"),
        _value(name).label("name"),
        _value(priority).label("priority"),
        _value(number).label("number"),
        _value(mails).label("mails"),
        (null() if moment is None else moment).label("moment"),
        _value(first).label("first"),
    )


def _value(value: Any) -> ColumnElement[Any]:
    return value if isinstance(value, ColumnElement) else literal(value)


def _flag(
    what: str, condition: ColumnElement[bool], *order: ColumnElement[Any]
) -> Select[*tuple[Any, ...]]:
    """Return 1 or 0: whether any row fulfils the condition.

    In the `order` of an index a planner uses that, however many rows it expects to fulfil it.
    """
    found = select(literal(1).label("one")).where(condition).order_by(*order)
    first = found.limit(1).subquery(what)
    return _row(what, number=func.count()).select_from(first)


def _due(
    database: Database, lanes: Lanes, way: Way, limit: int, *, is_marked: bool
) -> Select[*tuple[Any, ...]]:
    most, email = lanes.horizon(way[0]), database.tables.email
    found = waiting(database, lanes, way).add_columns(email.c.id)
    if is_marked:
        found = found.where(beyond(email, way))
    seen = found.limit(limit if most is None else min(limit, most)).subquery("seen")
    oldest, first = func.min(seen.c.due_at), func.min(seen.c.id)
    row = _row("due", way[0], int(way[1]), func.count(), moment=oldest, first=first)
    return row.select_from(seen)


def waiting(database: Database, lanes: Lanes, way: Way, since: float = 0.0) -> Select[datetime]:
    """Select the mails that may go this way and were due `since` seconds ago, oldest first.

    Whether it is paused or closed does not depend on the mails: where it is, none is looked at.
    """
    email, pause = database.tables.email.c, database.tables.pause.c
    bucket, (lane, priority) = database.tables.bucket.c, way
    buckets = sorted(lanes.buckets(lane))
    shut = exists().where(bucket.name.in_(buckets), bucket.tat > database.now(AHEAD))
    return (
        select(email.due_at)
        .where(
            email.lane == lane,
            email.priority == int(priority),
            email.due_at <= database.now(-since),
            ~exists().where(pause.scope.in_(["all", priority.name.lower()])),
            *([~shut] if buckets else []),
        )
        .order_by(email.due_at, email.id)
    )


def _buckets(
    database: Database, lanes: Lanes, servers: Sequence[ServerSettings]
) -> Iterator[Select[*tuple[Any, ...]]]:
    rated = {server.bucket for server in servers if server.rate is not None}
    bucket, known = database.tables.bucket.c, sorted(rated | lanes.all_buckets().keys())
    if known:
        yield _row("bucket", bucket.name, moment=bucket.tat).where(bucket.name.in_(known))


def _strays(database: Database, lanes: Lanes) -> Iterator[Select[*tuple[Any, ...]]]:
    """Look between the known lanes, so that no mail waits in one that nobody looks into.

    Each look is one step into the index.
    """
    email, known = database.tables.email.c, lanes.names
    gaps: list[tuple[str | None, str | None]] = [*pairwise(known), (known[-1], None)]
    if known[0]:
        gaps.insert(0, (None, known[0]))
    for low, high in gaps:
        between = [
            *([email.lane > low] if low is not None else []),
            *([email.lane < high] if high is not None else []),
        ]
        if database.dialect not in ("mysql", "mariadb"):
            # There the index is a full one, and this would pass over all finished mails.
            between.append(email.due_at.is_not(None))
        yield _row("stray", func.min(email.lane)).where(*between)
