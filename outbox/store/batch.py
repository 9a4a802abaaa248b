"""What a send task reads when it starts: its claimed mails, all but their contents."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Select, bindparam, exists, func, select

from ..domain.address import suppression_key
from ..domain.conclusion import RecipientStatus
from ..domain.priority import Priority
from ..domain.settings import OnUnknown
from ..domain.verdict import Envelope
from . import breaker
from .clock import utc
from .database import Database
from .rows import Batch, Waiting

_OPEN = (RecipientStatus.PENDING, RecipientStatus.UNKNOWN)


def load(connection: Connection, database: Database, token: UUID) -> Batch:
    """Return the mails that carry this token, in id order."""
    standing = connection.execute(database.built(_standing), {"claim": token}).one()
    rows = connection.execute(database.built(_mails), {"claim": token}).all()
    several = _recipients(connection, database, [row[0] for row in rows if row[1] > 1])
    now = utc(standing.now)
    waiting = [_waiting(row, several.get(row[0]), now) for row in rows]
    # The list is empty in most shops: then nobody is looked up.
    barred = standing.any_suppressed
    suppressed = _suppressed(connection, database, waiting) if barred else frozenset()
    if suppressed:
        waiting = [_without(mail, suppressed) for mail in waiting]
    halted = _halted(connection, database) if standing.any_halted else {}
    return Batch(
        began_at=now,
        mails=tuple(waiting),
        lane=standing.lane,
        priority=Priority(standing.priority),
        halted=frozenset(halted),
        ramps=breaker.ramps(connection, database) if standing.any_recovering else {},
        probed=next((server for server, prober in halted.items() if prober == token), None),
    )


def _standing(database: Database) -> Select[*tuple[Any, ...]]:
    """What holds for the whole batch, told once and not with each of its mails."""
    lease = database.tables.lease.c
    return select(
        lease.lane,
        lease.priority,
        database.now().label("now"),
        exists(select(database.tables.suppression.c.address)).label("any_suppressed"),
        exists(select(database.tables.breaker.c.server)).label("any_halted"),
        breaker.recovering(database).label("any_recovering"),
    ).where(lease.token == bindparam("claim"))


def _mails(database: Database) -> Select[*tuple[Any, ...]]:
    email = database.tables.email.c
    columns = (
        email.id, email.recipients, email.content_id, email.size, email.attempts,
        email.max_attempts, email.deliveries, email.doubts, email.on_unknown,
        func.coalesce(email.send_at, email.created_at), email.expires_at,
        email.sender, email.recipient, email.smtputf8, email.eightbit, email.headers,
        email.esmtp_options,
    )  # fmt: skip
    return select(*columns).where(email.token == bindparam("claim")).order_by(email.id)


def _halted(connection: Connection, database: Database) -> dict[str, UUID | None]:
    """Return the servers whose breakers are open, each with the claim that is its probe."""
    table = database.tables.breaker
    return {row.server: row.prober for row in connection.execute(select(table))}


def _waiting(row: Any, several: Sequence[Any] | None, now: datetime) -> Waiting:
    (  # a row's attributes by name would take longer than all the rest of the batch's reading
        email_id, _, content_id, size, attempts, max_attempts, deliveries, doubts, on_unknown,
        since, expires_at, sender, recipient, smtputf8, eightbit, headers, options,
    ) = row  # fmt: skip
    addresses: tuple[str, ...] = (recipient,)
    doubtful = frozenset(addresses if doubts else ())
    settled: frozenset[str] = frozenset()
    if several is not None:
        open_ = [r for r in several if r.status in _OPEN]
        addresses = tuple(r.address for r in open_)
        doubtful = frozenset(r.address for r in open_ if r.status == RecipientStatus.UNKNOWN)
        settled = frozenset(r.status for r in several if r.status not in _OPEN)
    mail_options, rcpt_options = json.loads(options) if options else ((), ())
    return Waiting(
        id=email_id,
        content_id=content_id,
        size=size,
        attempts=attempts,
        max_attempts=max_attempts,
        deliveries=deliveries,
        doubts=doubts,
        on_unknown=OnUnknown(on_unknown) if on_unknown else None,
        several=several is not None,
        age=(now - utc(since)).total_seconds(),
        expires=expires_at is not None,
        envelope=Envelope(
            sender=sender,
            recipients=addresses,
            size=size,
            smtputf8=bool(smtputf8),
            eightbit=bool(eightbit),
            mail_options=tuple(mail_options),
            rcpt_options=tuple(rcpt_options),
        ),
        headers=headers,
        doubtful=doubtful,
        settled=settled,
    )


def _recipients(connection: Connection, database: Database, ids: list[int]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    if ids:
        table = database.tables.recipient
        statement = (
            select(table.c.email_id, table.c.address, table.c.status)
            .where(table.c.email_id.in_(ids))
            .order_by(table.c.email_id, table.c.position)
        )
        for row in connection.execute(statement):
            found[row.email_id].append(row)
    return found


def _suppressed(
    connection: Connection, database: Database, mails: Iterable[Waiting]
) -> frozenset[str]:
    table = database.tables.suppression
    keys = sorted(
        {suppression_key(address) for mail in mails for address in mail.envelope.recipients}
    )
    if not keys:
        return frozenset()
    statement = select(table.c.address).where(table.c.address.in_(keys))
    return frozenset(connection.execute(statement).scalars())


def _without(mail: Waiting, suppressed: frozenset[str]) -> Waiting:
    gone = frozenset(
        address for address in mail.envelope.recipients if suppression_key(address) in suppressed
    )
    if not gone:
        return mail
    kept = tuple(address for address in mail.envelope.recipients if address not in gone)
    # Who is in doubt stays so: the status never lies, and a suppressed address may have a copy.
    return replace(
        mail,
        envelope=replace(mail.envelope, recipients=kept),
        suppressed=gone - mail.doubtful,
    )
