"""A server's breaker, shared by all workers: open for a while, then one probe at a time.

Closed (no row) → open (`trip`) → half open, when its time has come → one `probe` → closed, with a
ramp (`close`), or open for twice as long.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from ..domain.recovery import RAMP, RAMP_SECONDS
from .columns import REPLY_LENGTH
from .database import Database

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0
ALERT_PAUSE = 300.0
"""Seconds: 5, doubling to 5 minutes; what a person must mend waits the longest at once."""

OPEN = -1
HALF_OPEN = 0
"""What `limit` says of a server to which nothing may go, and of one that waits for a probe."""


def pause(failures: int) -> float:
    """Return the seconds that the breaker stays open after this many failures in a row."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(max(failures, 1) - 1, 10))


def trip(
    database: Database,
    server: str,
    *,
    reason: str,
    alert: bool = False,
    named: float | None = None,
    refusal: str | None = None,
) -> None:
    """Open the breaker; where it is open already, keep its count and note the newest reason.

    Workers that meet the same outage at the same time so count as one failure, and a failed probe
    was counted when it was taken. A delay that the server `named` is kept as the least; nothing
    ever brings the next probe forward. An alert stands, with its reason, until the server takes a
    mail. `refusal` is the fingerprint of how it refuses every mail.
    """
    table = database.tables.breaker
    reason = reason[:REPLY_LENGTH]
    wait = max(pause(1), named or 0.0, ALERT_PAUSE if alert else 0.0)
    until = database.now(wait)
    changes: dict[str, Any] = {
        "retry_at": case((table.c.retry_at < until, until), else_=table.c.retry_at),
        "reason": case((table.c.alert == true(), table.c.reason), else_=reason),
    }
    if alert:
        changes |= {"alert": True, "reason": reason}
    if refusal is not None:
        changes["refusal"] = refusal
    again = update(table).where(table.c.server == server).values(changes)

    def work(connection: Connection) -> None:
        if connection.execute(again).rowcount:
            return
        opened = insert(table).values(
            server=server, failures=1, opened_at=database.now(), retry_at=until,
            alert=alert, reason=reason, refusal=refusal,
        )  # fmt: skip
        try:
            with connection.begin_nested():
                connection.execute(opened)
        except IntegrityError:  # another worker met the same outage first
            connection.execute(again)

    database.run(work)


def probe(database: Database, server: str) -> bool:
    """Take the one probe of a half-open breaker; False when another has it.

    The probe is leased: taking it counts it as failed and moves the next one on, so that a prober
    that dies does not leave the breaker half open. One that lives, and hangs, keeps the others away
    for as long as its lease lasts, where `probing` has told which that is.
    """
    table = database.tables.breaker

    def work(connection: Connection) -> bool:
        failures = connection.execute(
            select(table.c.failures).where(table.c.server == server)
        ).scalar()
        if failures is None:
            return False
        moved = {"failures": failures + 1, "retry_at": database.now(pause(failures + 1))}
        taken = connection.execute(
            update(table).where(_waits(database, server)).values(**moved, prober=None)
        )
        return taken.rowcount == 1

    return database.run(work)


def probing(database: Database, server: str, token: UUID) -> None:
    """Note the lease of the probe just taken: no other is made while that lease is there."""
    table = database.tables.breaker
    noted = update(table).where(table.c.server == server).values(prober=token)
    database.run(lambda connection: connection.execute(noted))


def close(database: Database, server: str) -> None:
    """Close the breaker, if it is open: the server took a command or a mail. The ramp begins."""
    table, servers = database.tables.breaker, database.tables.server
    now = {"recovered_at": database.now()}

    def work(connection: Connection) -> None:
        if not connection.execute(delete(table).where(table.c.server == server)).rowcount:
            return
        again = update(servers).where(servers.c.name == server).values(**now)
        if connection.execute(again).rowcount:
            return
        try:
            with connection.begin_nested():
                connection.execute(insert(servers).values(name=server, **now))
        except IntegrityError:  # another made the row first
            connection.execute(again)

    database.run(work)


def refusal(database: Database, server: str) -> str | None:
    """Return how the server refuses every mail, where its breaker is open for that."""
    table = database.tables.breaker
    statement = select(table.c.refusal).where(table.c.server == server)
    return database.read(lambda connection: connection.execute(statement).scalar())


def limit(database: Database, server: str) -> ColumnElement[int | None]:
    """The server's state as one number, for the one statement of a sweep.

    OPEN: nothing may be claimed for it. HALF_OPEN: one mail, by who gets the `probe`. Above 0: it
    has just come back, and so many batches may be in flight on it. NULL: no limit.
    """
    breaker, servers = database.tables.breaker.c, database.tables.server.c
    halted = (
        select(case((_waits(database, server), HALF_OPEN), else_=OPEN))
        .where(breaker.server == server)
        .correlate(None)
        .scalar_subquery()
    )
    ramp = select(_ramp(database)).where(servers.name == server).correlate(None).scalar_subquery()
    return func.coalesce(halted, ramp)


def recovering(database: Database) -> ColumnElement[bool]:
    """Return whether any server has just come back."""
    servers = database.tables.server.c
    return exists(select(servers.name).where(servers.recovered_at > database.now(-RAMP_SECONDS)))


def ramps(connection: Connection, database: Database) -> dict[str, int]:
    """Return how many batches may be in flight on each server that has just come back."""
    servers = database.tables.server.c
    since = servers.recovered_at > database.now(-RAMP_SECONDS)
    rows = connection.execute(select(servers.name, _ramp(database).label("most")).where(since))
    return {row.name: row.most for row in rows if row.most is not None}


def _ramp(database: Database) -> ColumnElement[int | None]:
    recovered = database.tables.server.c.recovered_at
    return case(*((recovered > database.now(-until), batches) for until, batches in RAMP))


def _waits(database: Database, server: str) -> ColumnElement[bool]:
    """The breaker is half open: its time has come, and no probe is under way."""
    breaker, lease = database.tables.breaker.c, database.tables.lease.c
    under_way = exists().where(lease.token == breaker.prober)
    return (
        (breaker.server == server)
        & (breaker.retry_at <= database.now())
        & or_(breaker.prober.is_(None), ~under_way)
    )
