"""claimed, sending → pending, failed, sent, unknown: an expired lease's emails are judged.

A lease whose task had started is judged one full lease after a sweep first saw it expired. During a
database outage nobody can renew a lease, so every live worker gets the time to renew after it. The
same holds while a host that vanished keeps a lease's row locked. A process whose sweeps saw that
twice judges the lease one lease after that; one that did not see it judges it at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, and_, delete, insert, select, update

from ...domain.config.settings import OnUnknown, Settings
from ...domain.delivery.outcome import RecipientStatus, ends_unknown
from ...domain.delivery.status import Status
from ...domain.delivery.transaction import Phase, Verdict
from ...domain.scheduling import backoff
from ..connection.database import Database
from ..connection.endings import Ending, note_endings
from ..connection.error_codes import describe, may_be_of_a_row
from ..connection.list_parts import among
from ..connection.one_by_one import each_for_itself
from ..connection.row_locks import lock, lock_claim, locking, seen
from ..control import locked_leases
from ..control.circuit_breaker import forget_prober, give_back_probe
from ..control.counter import UNKNOWN, bump
from ..control.lapsed_leases import is_rescuable, note_lapsed, rescuable
from ..control.lease import judge_later
from ..end_emails import end_emails
from ..inserts.bulk import insert_rows
from ..queries.crashing import note_crashing, prepare_mark
from ..rollup.tally import count_logged
from ..schema.clock import utc
from .release import give_back_locked

_log = logging.getLogger("outbox")

RESCUED = "leases_rescued"
_LOST_WORKER = "the worker was lost before it recorded a reply"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rescued:
    """What a rescue did."""

    leases: int  # ended
    emails: int  # judged; some of a lease's emails may be judged by a later rescue
    in_doubt: int  # of these emails


def rescue(database: Database, settings: Settings, *, random: Callable[[], float]) -> Rescued:
    """Judge the leases that ran out; return how many, and how many emails."""
    note_lapsed(database)
    done, failed, tokens = list[Rescued](), list[Exception](), rescuable(database, settings.lease)
    locked_leases.keep(database, tokens)
    prepare_mark(database, tokens)
    for token in tokens:
        work = partial(
            _rescue_one, database=database, settings=settings, token=token, random=random
        )
        try:
            one = database.run(work)
        except Exception as error:
            if not may_be_of_a_row(error):
                raise
            failed.append(error)
            judge_later(database, token)
            continue
        if one is None:
            locked_leases.note(database, token)
        else:
            locked_leases.forget(database, token)
            done.append(one)
    if failed and not done:  # nothing tells that it is not the database
        raise failed[0]
    for each in failed:
        _log.error("outbox: a lease could not be rescued (%s)", describe(each))
    return Rescued(
        leases=sum(one.leases for one in done),
        emails=sum(one.emails for one in done),
        in_doubt=sum(one.in_doubt for one in done),
    )


_NOTHING = Rescued(leases=0, emails=0, in_doubt=0)


def _rescue_one(
    connection: Connection,
    database: Database,
    settings: Settings,
    token: UUID,
    random: Callable[[], float],
) -> Rescued | None:
    """Judge one lease; return None if its row is locked, or if it is not to be judged any more."""
    table, ours = database.tables.lease, database.tables.email.c.token == token
    mine = table.c.token == token
    due = select(table).where(mine, is_rescuable(database, settings.lease))
    lease = connection.execute(locking(due, table, skip_locked=True)).one_or_none()
    if lease is None:  # renewed, finished or rescued by another sweep since the read, or locked
        return None
    if lease.started_at is not None and locked_leases.was_locked(database, token):
        connection.execute(update(table).where(mine).values(suspected_at=database.now()))
        return _NOTHING
    free = lock_claim(connection, database, ours)
    faulty, in_doubt = _judge(connection, database, settings, lease, free, random)
    emails = len(free) - len(faulty)
    if lease.started_at is None:
        give_back_probe(connection, database, token)
    if seen(connection, database, ours):
        # The lost worker has no connection and makes no probe any more. Emails locked by a user's
        # transaction are judged after its end, and those that caused an error one lease later.
        forget_prober(connection, database, token)
        again = {"suspected_at": database.now()} if faulty else {}
        connection.execute(update(table).where(mine).values(server=None, **again))
        return Rescued(leases=0, emails=emails, in_doubt=in_doubt)
    connection.execute(delete(table).where(mine))
    if not (lease.emails and free):  # its worker ended well, and left only rows locked by others
        return _NOTHING
    bump(connection, database, RESCUED)
    return Rescued(leases=1, emails=emails, in_doubt=in_doubt)


def _judge(
    connection: Connection,
    database: Database,
    settings: Settings,
    lease: Row[Any],
    free: Collection[int],
    random: Callable[[], float],
) -> tuple[Collection[int], int]:
    """Judge these emails of the lease, which are locked.

    Return those whose rows the database refuses, and how many of the others came into doubt.
    """
    doubtful = set[int]()  # work that is rolled back is repeated, and adds the same ids again

    def judge(ids: frozenset[int]) -> None:
        if lease.started_at is not None:
            _charge(connection, database, settings, lease.token, ids)
            doubtful.update(_mark_unknown(connection, database, settings, lease, ids, random))
        give_back_locked(connection, database, lease.token, ids)

    faulty = each_for_itself(connection, free, judge, "rescued")
    return faulty, len(doubtful)


def _charge(
    connection: Connection, database: Database, settings: Settings, token: UUID, ids: frozenset[int]
) -> None:
    """Count the crash, and fail the claimed emails whose workers were lost too often."""
    email = database.tables.email
    ours = (email.c.token == token) & among(database, ids)
    connection.execute(update(email).where(ours).values(crashes=email.c.crashes + 1))
    note_crashing(connection, database, ours)
    used_up = and_(ours, email.c.status == Status.CLAIMED, email.c.crashes >= settings.max_crashes)
    lost = lock(connection, database, used_up)
    end_emails(connection, database, lost, Status.FAILED, cause=_LOST_WORKER)


def _mark_unknown(
    connection: Connection,
    database: Database,
    settings: Settings,
    lease: Row[Any],
    ids: frozenset[int],
    random: Callable[[], float],
) -> list[int]:
    """Mark the emails of the open window as unknown; return their ids."""
    email, token = database.tables.email, lease.token
    sending = (
        select(email.c.id, email.c.attempts, email.c.unknown_count, email.c.on_unknown,
               email.c.crashes, email.c.recipients, email.c.max_attempts)
        .where(email.c.token == token, email.c.status == Status.SENDING, among(database, ids))
        .order_by(email.c.id)
    )  # fmt: skip
    rows = connection.execute(sending).all()
    for row in rows:
        values: dict[str, Any] = {"status": Status.UNKNOWN, "finished_at": database.now()}
        if _is_final(row, settings):
            note_endings(connection, [Ending(Status.UNKNOWN, row.id, _LOST_WORKER)])
        else:
            wait = backoff.delay(row.attempts + 1, random=random, steps=settings.backoff)
            values = {"status": Status.PENDING, "due_at": database.now(wait)}
        connection.execute(
            update(email)
            .where(email.c.id == row.id, email.c.token == token)
            .values(
                token=None,
                unknown_token=token,
                unknown_count=email.c.unknown_count + 1,
                attempts=email.c.attempts + 1,
                **values,
            )
        )
    _log_attempts(connection, database, lease, [row.id for row in rows])
    _mark_recipients_unknown(connection, database, [row.id for row in rows if row.recipients > 1])
    if rows:
        bump(connection, database, UNKNOWN, len(rows))
    return [row.id for row in rows]


def _is_final(row: Any, settings: Settings) -> bool:
    """Return whether an email in doubt ends `unknown` instead of being sent again.

    The email's lifetime does not matter: a worker's death costs none of it, and the wait after the
    death is not counted.
    """
    return row.crashes >= settings.max_crashes or ends_unknown(
        on_unknown=OnUnknown(row.on_unknown or settings.on_unknown),
        unknown_count=row.unknown_count,
        attempts=row.attempts,
        max_attempts=row.max_attempts or settings.max_attempts,
    )


def _log_attempts(
    connection: Connection, database: Database, lease: Row[Any], ids: Sequence[int]
) -> None:
    if not ids:
        return
    now = utc(connection.execute(select(database.now())).scalar_one())
    rows = [
        {
            "email_id": email_id,
            "started_at": lease.started_at,
            "finished_at": now,
            "verdict": Verdict.UNKNOWN,
            "phase": Phase.DOT,
            "code": 0,
            "enhanced": "",
            "reply": _LOST_WORKER,
            "worker": lease.worker or "",
            "server": "",
        }
        for email_id in ids
    ]
    insert_rows(connection, insert(database.tables.attempt), rows)
    count_logged(connection, database, rows)


def _mark_recipients_unknown(
    connection: Connection, database: Database, ids: Sequence[int]
) -> None:
    """Mark the recipients without a recorded outcome as unknown."""
    table = database.tables.recipient
    if ids:
        connection.execute(
            update(table)
            .where(table.c.email_id.in_(ids), table.c.status == RecipientStatus.PENDING)
            .values(status=RecipientStatus.UNKNOWN)
        )
