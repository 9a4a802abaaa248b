"""Permits over all workers and hosts: taken from every bucket at once, or from none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from ...domain.scheduling.lanes import Wants
from ...domain.scheduling.token_bucket import SLACK, lag, lag_after, wait
from ..backend import backend_of
from ..connection import shared_rows
from ..connection.database import Database
from ..connection.shared_rows import LockedElsewhere, insert_absent, lock, run_patiently
from ..schema.clock import utc


def take(
    database: Database, wants: Wants, *, debts: Wants | None = None, margin: float = 0.0
) -> float:
    """Take permits from all these buckets if all of them are open, or else from none.

    Returns 0.0 if they were taken, or the seconds until the last bucket opens. A bucket opens
    `margin` seconds after its time. The buckets in `debts` are charged too, but need not be open.
    If another transaction has locked a bucket's row for long, nobody knows when they open, and
    infinity is returned.
    """
    costs = {**wants, **(debts or {})}
    if not costs:
        return 0.0
    name = database.tables.bucket.c.name
    attempt = backend_of(database.dialect).take_permits or take_in_steps
    try:
        while (last := attempt(database, costs, wants, margin)) is None:
            # Buckets that were never taken from are open, and as full as possible.
            insert_absent(database, name, costs, tat=database.now(-SLACK))
    except LockedElsewhere:
        return inf
    return wait(last, margin)


def take_in_steps(database: Database, costs: Wants, wants: Wants, margin: float) -> float | None:
    """Take permits from all these buckets, unless one of the `wants` is not open yet.

    Returns the largest lag of the wanted buckets in seconds, or None if a bucket has no row yet.
    Raises LockedElsewhere if another transaction has locked one of the rows for long.
    """
    bucket = database.tables.bucket

    def work(connection: Connection) -> float | None:
        rows = lock(connection, database, _select(database), bucket.c.name, costs)
        if len(rows) < len(costs):
            return None
        now = utc(rows[0].now)
        lags = {row.name: _lag(row) for row in rows}
        last = max((lags[name] for name in wants), default=-inf)
        if not wait(last, margin):
            for name, (rate, permits) in sorted(costs.items()):
                tat = now + timedelta(seconds=lag_after(lags[name], rate, permits))
                change = update(bucket).where(bucket.c.name == name)
                connection.execute(change.values(tat=tat, taken_at=now))
        return last

    return run_patiently(database, work)


def correct_buckets(database: Database, debts: Mapping[str, float]) -> None:
    """Correct these buckets: each owes no more than its `debts` since its last take, in seconds.

    It owes more where its rate was slower then: see `max_debt`. If it was last taken from in the
    future, the clock was ahead. Its debt would not shrink until that moment comes. From now on it
    shrinks as time goes by.
    """
    for name, most in debts.items():
        # Each for itself: a bucket whose row is locked leaves no other bucket shut.
        with suppress(LockedElsewhere):
            run_patiently(database, partial(_correct, database=database, name=name, most=most))


def _correct(connection: Connection, database: Database, name: str, most: float) -> None:
    bucket = database.tables.bucket
    for row in lock(connection, database, _select(database), bucket.c.name, [name]):
        now = utc(row.now)
        tat = now + timedelta(seconds=max(-SLACK, _lag(row, most)))
        change = update(bucket).where(bucket.c.name == name)
        connection.execute(change.values(tat=tat, taken_at=now))


def avoided(database: Database) -> dict[str, float]:
    """Return the buckets whose rows this process avoids, and for how many seconds more."""
    return shared_rows.avoided(database, database.tables.bucket)


def seconds_until_open(database: Database, names: Collection[str]) -> dict[str, float]:
    """Return the seconds until each of these buckets opens, 0.0 if it is open.

    They are infinite for a bucket whose row this process avoids. A bucket that was never taken from
    is open, and is left out.
    """
    statement = _select(database).where(database.tables.bucket.c.name.in_(names))
    rows = database.read(lambda connection: connection.execute(statement).all())
    locked = avoided(database)
    return {row.name: inf if row.name in locked else wait(_lag(row)) for row in rows}


def rate_limited(connection: Connection, database: Database) -> list[dict[str, Any]]:
    """Return the buckets that are closed now, and the seconds until each opens.

    Bulk's own buckets are left out. They only hold bulk back while urgent email is active.
    """
    bucket = database.tables.bucket.c
    statement = _select(database).where(bucket.tat > database.now(), bucket.name.not_like("%/bulk"))
    rows = connection.execute(statement.order_by(bucket.name)).all()
    lags = {row.name: _lag(row) for row in rows}
    return [
        {"bucket": name, "opens_in": round(seconds, 3)}
        for name, seconds in lags.items()
        if seconds > 0.0
    ]


def _select(database: Database) -> Select[*tuple[Any, ...]]:
    bucket = database.tables.bucket.c
    return select(bucket.name, bucket.tat, bucket.taken_at, database.now().label("now"))


def _lag(row: Row[Any], most: float = inf) -> float:
    taken_at = None if row.taken_at is None else utc(row.taken_at)
    return lag(utc(row.tat), taken_at, utc(row.now), most=most)
