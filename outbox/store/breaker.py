"""The server's breaker, shared by all workers: open for a while, then one probe at a time."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from .columns import REPLY_LENGTH
from .database import Database

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0
ALERT_PAUSE = 300.0
"""Seconds: 5, doubling to 5 minutes; refused credentials wait the longest at once."""


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
) -> None:
    """Open the breaker; where it is open already, keep its time and the newest reason.

    Workers that meet the same outage at the same time so count as one failure, and a failed probe
    was counted when it was taken. A delay that the server `named` is kept as the least.
    """
    table = database.tables.breaker
    why = {"alert": alert, "reason": reason[:REPLY_LENGTH]}
    wait = max(pause(1), named or 0.0, ALERT_PAUSE if alert else 0.0)
    later = {"retry_at": database.now(wait)} if wait > pause(1) else {}
    again = update(table).where(table.c.server == server).values(**why, **later)

    def work(connection: Connection) -> None:
        if connection.execute(again).rowcount:
            return
        opened = insert(table).values(
            server=server,
            failures=1,
            opened_at=database.now(),
            retry_at=database.now(wait),
            **why,
        )
        try:
            with connection.begin_nested():
                connection.execute(opened)
        except IntegrityError:  # another worker met the same outage first
            connection.execute(again)

    database.run(work)


def probe(database: Database, server: str) -> bool:
    """Take the one probe of a half-open breaker; False when another has it.

    The probe is leased: taking it counts it as failed and moves the next one on, so that a prober
    that dies does not leave the breaker half open. Success closes the breaker.
    """
    table = database.tables.breaker

    def work(connection: Connection) -> bool:
        failures = connection.execute(
            select(table.c.failures).where(table.c.server == server)
        ).scalar()
        if failures is None:
            return False
        taken = connection.execute(
            update(table)
            .where(table.c.server == server, table.c.retry_at <= database.now())
            .values(failures=failures + 1, retry_at=database.now(pause(failures + 1)))
        )
        return taken.rowcount == 1

    return database.run(work)


def close(database: Database, server: str) -> None:
    """Close the breaker: the server took a command or a mail."""
    table = database.tables.breaker
    database.run(lambda c: c.execute(delete(table).where(table.c.server == server)))
