"""A server's circuit breaker, shared by all workers.

A closed breaker has no row. `trip` writes a row, and `close` removes it. `take_probe` takes the
single probe of an open breaker when it is due, and `note_prober` notes the batch that is to make
it. `give_back_probe` undoes both where no task made it, and `forget_prober` takes out a prober that
has ended or died. Nothing is sent here. The ramp that follows a close stands in `outbox_server`.

Three other files change these rows too. `suspicion` writes those of suspected servers.
`forgotten_servers` notes which servers are configured, and removes the rows of those that are not.
`set_back` corrects those from the future: what puts `retry_at` off notes in `seen_at` when it did.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Row, case, delete, exists, select, true, update

from ...domain.delivery.breaker_timing import (
    ALERT_PAUSE,
    FIRST_PROBE,
    RETRIED,
    BreakerState,
    Cause,
    awaited_seconds,
    first_seconds,
    open_seconds,
    trial_seconds,
)
from ...domain.delivery.halt_reason import ask_for_the_same, told_since
from ..connection.database import Database
from ..connection.row_locks import locking
from ..connection.shared_rows import change_or_insert, lock, run_patiently, update_free
from ..records import Breaker
from ..schema.clock import utc
from ..schema.column_types import REPLY_LENGTH
from .set_back.ahead import is_breaker_ahead


def read(connection: Connection, database: Database) -> dict[str, Breaker]:
    """Return the breakers that are not closed, by server."""
    table, now = database.tables.breaker, database.now()
    rows = connection.execute(select(table, now.label("now")).where(counts(database))).all()
    return {row.server: _breaker(row) for row in rows}


def _breaker(row: Any) -> Breaker:
    state = BreakerState(row.state)
    if state is BreakerState.OPEN and utc(row.retry_at) <= utc(row.now):
        state = BreakerState.HALF_OPEN
    return Breaker(
        server=row.server,
        state=state,
        cause=Cause(row.cause),
        failures=row.failures,
        opened_at=utc(row.opened_at),
        retry_at=utc(row.retry_at),
        alert=bool(row.alert),
        reason=row.reason,
        prober=row.prober,
        refusal=row.refusal,
        suspect_id=row.suspect_id,
    )


def trip(
    database: Database,
    server: str,
    *,
    cause: Cause,
    reason: str,
    alert: bool = False,
    named: float | None = None,
    may_pass: bool = False,
    refusal: str | None = None,
    suspect_id: int | None = None,
    anew: bool = False,
) -> bool:
    """Open the breaker; if it is already open, keep its count and note the newest reason.

    Returns whether that is news: it was not open, or it had no alert or another kind of it.

    So workers that meet the same outage at the same time count as one failure. A failed probe was
    counted when it was taken. `named` is the delay in seconds that the server asked for. As far as
    the cause allows, the next probe waits at least that long. With `may_pass` it comes soon all the
    same (`first_seconds`). It is never brought forward, unless it was put off while the database's
    clock was ahead. An alert and its reason stand until the server accepts an email; the newest
    reason is put behind. `refusal` is the fingerprint of the reply with which the server refuses
    every email. With `anew` failures for another reason than this one no longer count.

    Raises LockedElsewhere if the row stays locked.
    """
    table, now = database.tables.breaker, database.now()
    until = database.now(first_seconds(cause, reason, alert=alert, named=named, may_pass=may_pass))
    first = {
        "state": BreakerState.OPEN, "cause": cause, "failures": 1, "opened_at": now, "seen_at": now,
        "retry_at": until, "alert": alert, "reason": reason[:REPLY_LENGTH], "prober": None,
        "refusal": refusal, "suspect_id": suspect_id,
    }  # fmt: skip
    is_open, is_news = is_in(database, server, BreakerState.OPEN), True

    def work(connection: Connection) -> bool:
        nonlocal is_news
        lock_breaker(connection, database, server)
        known = connection.execute(select(table.c.alert, table.c.reason).where(is_open)).first()
        # Another worker may open it just now: so the update tells whether it was open.
        alerted = known.reason if known is not None and known.alert else ""
        changes = _changes(database, first, alerted)
        if anew and known is not None and not known.reason.endswith(reason):
            changes["failures"] = FIRST_PROBE
        was_open = connection.execute(update(table).where(is_open).values(**changes)).rowcount > 0
        was_told = bool(alerted) and ask_for_the_same(alerted, reason)
        is_news = not was_open or (alert and not was_told)
        opens = update(table).where(is_in(database, server, BreakerState.SUSPECTED)).values(**first)
        return was_open or connection.execute(opens).rowcount > 0

    change_or_insert(database, work, table, server=server, **first)
    return is_news


def _changes(database: Database, first: Mapping[str, Any], alerted: str) -> dict[str, Any]:
    """Return the changes of an open breaker by the values of one that opens; `alerted`: why."""
    breaker, until = database.tables.breaker.c, first["retry_at"]
    both = told_since(alerted, first["reason"], most=REPLY_LENGTH) if alerted else breaker.reason
    is_sooner = (breaker.retry_at < until) | is_breaker_ahead(database)
    changes: dict[str, Any] = {
        "retry_at": case((is_sooner, until), else_=breaker.retry_at),
        "seen_at": first["seen_at"],
        "reason": case((breaker.alert == true(), both), else_=first["reason"]),
    }
    changes |= {name: first[name] for name in ("refusal", "suspect_id") if first[name] is not None}
    if first["alert"]:
        changes |= {"alert": True, "reason": first["reason"]}
    if first["cause"] is Cause.SESSION:
        changes["cause"] = Cause.SESSION
    return changes


def lock_breaker(connection: Connection, database: Database, server: str) -> Row[Any] | None:
    """Lock the server's row; return its name and state, or None if it has none.

    Whoever changes the row in several statements locks it this way, so that nobody waits long for a
    host that has vanished. Raises LockedElsewhere.
    """
    breaker = database.tables.breaker.c
    rows = select(breaker.server, breaker.state)
    return next(iter(lock(connection, database, rows, breaker.server, [server])), None)


def take_probe(database: Database, server: str, *, others: bool = False) -> Breaker | None:
    """Take the single probe of a half-open breaker; return its state, or None if there is none.

    Taking the probe counts it as failed and postpones the next one. So a prober that dies does not
    leave the breaker half open. A prober that hangs but lives keeps others away as long as its
    lease lasts, once `note_prober` has noted that lease. While another transaction has locked the
    row there is no probe. With `others` it tries contents that were not tried before.
    """
    table = database.tables.breaker

    def work(connection: Connection) -> Breaker | None:
        found = read(connection, database).get(server)
        if found is None or found.state is not BreakerState.HALF_OPEN:
            return None
        failures = found.failures + 1
        pause = trial_seconds(failures) if others else open_seconds(failures, found.cause)
        moved = {"failures": failures, "retry_at": database.now(pause), "seen_at": database.now()}
        waits = is_in(database, server, BreakerState.OPEN) & is_half_open(database)
        return found if update_free(connection, table, waits, **moved, prober=None) else None

    return database.run(work)


def note_prober(database: Database, server: str, token: UUID) -> None:
    """Note the lease of the probe just taken: no other probe is made while that lease exists.

    If the sweep stalled meanwhile, another probe may have been noted. Then nothing is changed.
    """
    table = database.tables.breaker
    is_free = is_in(database, server, BreakerState.OPEN) & table.c.prober.is_(None)
    database.run(lambda connection: update_free(connection, table, is_free, prober=token))


def give_back_probe(connection: Connection, database: Database, token: UUID) -> None:
    """Take back the failure of a probe that was never made: the next one is due now.

    Its lease ran out before any task had started it, for example because the broker lost the task.
    """
    table = database.tables.breaker
    mine = (table.c.prober == token) & (table.c.state == BreakerState.OPEN)
    undone = {
        "failures": table.c.failures - 1, "retry_at": database.now(), "seen_at": database.now(),
        "prober": None,
    }  # fmt: skip
    update_free(connection, table, mine, **undone)


def leave_probe(database: Database, token: UUID) -> bool:
    """Let others probe although this lease's probe waits for a reply, but put the next one off.

    Each such probe may end in doubt, so each puts the next one off for twice as long. Returns False
    if another transaction has locked the breaker's row: then nothing is changed.
    """
    table = database.tables.breaker
    mine = table.c.prober == token

    def work(connection: Connection) -> bool:
        failures = connection.execute(select(table.c.failures).where(mine)).scalar()
        if failures is None:  # it is no probe
            return True
        until = database.now(awaited_seconds(failures))
        later = case((table.c.retry_at < until, until), else_=table.c.retry_at)
        return update_free(connection, table, mine, prober=None, retry_at=later) > 0

    return database.run(work)


def forget_prober(connection: Connection, database: Database, token: UUID) -> None:
    """Let others probe although this lease is left: its batch has ended, or its worker is lost."""
    table = database.tables.breaker
    update_free(connection, table, table.c.prober == token, prober=None)


def hurry(database: Database, servers: Collection[str]) -> int:
    """Bring forward the probes of those that a person must see to; return how many there were.

    A worker that starts may have what the person has mended. A probe still comes `RETRIED` seconds
    after the last failure at the earliest, so workers that start again and again do no harm.
    """
    table = database.tables.breaker
    waits = (table.c.state == BreakerState.OPEN) & (table.c.alert == true())
    mine = waits & (table.c.cause == Cause.SESSION) & table.c.server.in_(list(servers))

    def work(connection: Connection) -> int:
        now = utc(connection.execute(select(database.now())).scalar_one())
        ordered = select(table).where(mine).order_by(table.c.server)
        waiting = locking(ordered, table, skip_locked=True)
        found = connection.execute(waiting).all()
        for row in found:
            failed_at = utc(row.retry_at) - timedelta(seconds=ALERT_PAUSE)
            soonest = max(now, failed_at + timedelta(seconds=RETRIED))
            moved = update(table).where(table.c.server == row.server)
            connection.execute(moved.values(retry_at=min(utc(row.retry_at), soonest)))
        return len(found)

    return database.run(work)


def close(database: Database, server: str) -> None:
    """Close the breaker, because the server accepted a command or an email, and begin the ramp.

    If the server was only suspected, the suspicion is removed and there is no ramp. Raises
    LockedElsewhere if the row of the breaker or the server stays locked. Then nothing is changed,
    and the next probe closes the breaker.
    """
    table, servers = database.tables.breaker, database.tables.server
    begun = update(servers).where(servers.c.name == server).values(recovered_at=database.now())

    def work(connection: Connection) -> None:
        found = lock_breaker(connection, database, server)
        if found is not None and found.state == BreakerState.OPEN:
            name = servers.c.name
            lock(connection, database, select(name), name, [server], absent={})
            connection.execute(begun)
        connection.execute(delete(table).where(table.c.server == server))

    run_patiently(database, work)


def refusal(database: Database, server: str) -> str | None:
    """Return the refusal fingerprint for which the server's breaker is open, or None."""
    found = database.read(lambda connection: read(connection, database)).get(server)
    return found.refusal if found is not None else None


def is_in(database: Database, server: str, state: BreakerState) -> ColumnElement[bool]:
    """Return the condition: the row is this server's and in this state."""
    breaker = database.tables.breaker.c
    return (breaker.server == server) & (breaker.state == state)


def counts(database: Database) -> ColumnElement[bool]:
    """Return the condition: the row still counts. A suspicion is forgotten after its time."""
    breaker = database.tables.breaker.c
    return (breaker.state == BreakerState.OPEN) | (breaker.retry_at > database.now())


def is_half_open(database: Database) -> ColumnElement[bool]:
    """Return the condition, of an open breaker: its probe is due, and no probe is under way."""
    breaker, lease = database.tables.breaker.c, database.tables.lease.c
    under_way = exists().where(lease.token == breaker.prober)
    return (breaker.retry_at <= database.now()) & (breaker.prober.is_(None) | ~under_way)
