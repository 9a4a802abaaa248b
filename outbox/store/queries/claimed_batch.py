"""Reads a batch when its send task starts: the claimed emails without their contents."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Select, bindparam, select

from ...domain.config.settings import OnUnknown
from ...domain.delivery.blame import Traits
from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.transaction import Envelope
from ...domain.header.address import suppression_key
from ...domain.priority import Priority
from ..connection.database import Database
from ..connection.list_parts import among, parts
from ..connection.psycopg.binary_results import binary_results
from ..connection.row_locks import free
from ..control import circuit_breaker
from ..control.barring.barred import any_erased, any_listed, barred_among
from ..control.barring.erased import erased_among
from ..records import Batch, Breaker, ClaimedEmail, traits_of
from ..schema.clock import utc
from .sweep import server_limits

_OPEN = (RecipientStatus.PENDING, RecipientStatus.UNKNOWN)
_NONE = frozenset[str]()  # shared by all emails: a set for each would be garbage to collect


class _Barred(NamedTuple):
    """The recipients that get no email, as `suppression_key` writes them."""

    all: frozenset[str] = _NONE
    erased: frozenset[str] = _NONE  # those of them that have a tombstone

    def of_erased(self, email: ClaimedEmail) -> bool:
        """Return whether the email is to an erased person alone."""
        keys = map(suppression_key, email.envelope.recipients)
        return not email.several and self.erased.issuperset(keys)


_NOBODY = _Barred()


def load(connection: Connection, database: Database, token: UUID) -> Batch | None:
    """Return the batch with the emails that carry this token, in the order of ids.

    Return None if the token has no lease.
    """
    shared = connection.execute(database.built(_shared_values), {"claim": token}).one_or_none()
    if shared is None:
        return None
    with binary_results(connection):
        rows = connection.execute(database.built(_emails), {"claim": token}).all()
    to_several = [row[0] for row in rows if row[1] > 1]
    several = _recipients(connection, database, token, to_several)
    now, lacking = utc(shared.now), list[ClaimedEmail]()
    if len(several) < len(to_several):
        lost = set(to_several) - several.keys()
        lacking = [_lacking(row, now) for row in rows if row[0] in lost]
        rows = [row for row in rows if row[0] not in lost]
    waiting = [_waiting(row, several.get(row[0]), now) for row in rows]
    # In most apps both lists are empty: then no recipient is looked up.
    barred = _barred(connection, database, shared, waiting)
    erased = [email.id for email in waiting if barred.of_erased(email)] if barred.erased else ()
    if barred.all:
        waiting = [_without(email, barred.all) for email in waiting]
    breakers = circuit_breaker.read(connection, database) if shared.any_known else {}
    return Batch(
        began_at=now,
        emails=tuple(waiting),
        lane=shared.lane,
        priority=Priority(shared.priority),
        breakers=breakers,
        suspects=suspects(connection, database, breakers.values()),
        ramps=server_limits.ramps(connection, database) if shared.any_recovering else {},
        probed=next((name for name, b in breakers.items() if b.prober == token), None),
        erased=frozenset(erased),
        lacking=tuple(lacking),
    )


def _shared_values(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for the values that all emails of the batch share, to read them once."""
    lease = database.tables.lease.c
    return select(
        lease.lane,
        lease.priority,
        database.now().label("now"),
        any_listed(database).label("listed"),
        any_erased(database).label("erased"),
        server_limits.any_known(database).label("any_known"),
        server_limits.recovering(database).label("any_recovering"),
    ).where(lease.token == bindparam("claim"))


def _emails(database: Database) -> Select[*tuple[Any, ...]]:
    email = database.tables.email.c
    columns = (
        email.id, email.recipients, email.content_id, email.size, email.attempts,
        email.max_attempts, email.crashes, email.unknown_count, email.on_unknown,
        email.waited, email.expires_at,
        email.sender, email.recipient, email.smtputf8, email.eightbit,
        email.message_id, email.headers,
        email.esmtp_options, email.merge, email.redact, email.traceparent,
    )  # fmt: skip
    return select(*columns).where(email.token == bindparam("claim")).order_by(email.id)


def suspects(
    connection: Connection, database: Database, breakers: Iterable[Breaker]
) -> dict[str, Traits]:
    """Return the traits of each server's last suspect. A suspect that was purged is left out."""
    servers = {b.server: b.suspect_id for b in breakers if b.suspect_id is not None}
    if not servers:
        return {}
    email = database.tables.email.c
    statement = select(email.id, email.sender, email.recipient, email.size)
    rows = connection.execute(statement.where(email.id.in_(sorted(set(servers.values())))))
    traits = {row.id: traits_of(row) for row in rows}
    return {server: traits[id_] for server, id_ in servers.items() if id_ in traits}


def _waiting(row: Any, several: Sequence[Any] | None, now: datetime) -> ClaimedEmail:
    (  # reading a row's attributes by name would take longer than all the rest of loading
        email_id, _, content_id, size, attempts, max_attempts, crashes, unknown_count, on_unknown,
        waited, expires_at, sender, recipient, smtputf8, eightbit, message_id, headers,
        options, merge, redact, traceparent,
    ) = row  # fmt: skip
    addresses: tuple[str, ...] = (recipient,)
    doubtful = frozenset(addresses) if unknown_count else _NONE
    settled = _NONE
    if several is not None:
        open_ = [r for r in several if r.status in _OPEN]
        addresses = tuple(r.address for r in open_)
        doubtful = frozenset(r.address for r in open_ if r.status == RecipientStatus.UNKNOWN)
        settled = frozenset(r.status for r in several if r.status not in _OPEN)
    mail_options, rcpt_options = json.loads(options) if options else ((), ())
    return ClaimedEmail(
        id=email_id,
        content_id=content_id,
        size=size,
        attempts=attempts,
        max_attempts=max_attempts,
        crashes=crashes,
        unknown_count=unknown_count,
        on_unknown=OnUnknown(on_unknown) if on_unknown else None,
        several=several is not None,
        waited=float(waited),
        expires_in=None if expires_at is None else (utc(expires_at) - now).total_seconds(),
        envelope=Envelope(
            sender=sender,
            recipients=addresses,
            size=size,
            smtputf8=bool(smtputf8),
            eightbit=bool(eightbit),
            mail_options=tuple(mail_options),
            rcpt_options=tuple(rcpt_options),
        ),
        message_id=message_id,
        headers=headers,
        doubtful=doubtful,
        settled=settled,
        merge=merge,
        redact=bool(redact),
        traceparent=traceparent,
    )


def _lacking(row: Any, now: datetime) -> ClaimedEmail:
    """Return an email whose recipients were not found: only the first one's address is known."""
    return replace(_waiting(row, None, now), several=True, lacks_recipients=True)


def without_recipients(
    connection: Connection, database: Database, token: UUID, ids: Sequence[int]
) -> frozenset[int]:
    """Return which of these emails of a claim have no recipient's row, or none of this claim.

    It is to be run in a transaction, and asks no replica that lags behind: a locking read is sent
    to the primary, and then all that follows. It waits for no locked row.
    """
    email = database.tables.email
    ours = select(email.c.id).where(email.c.token == token, among(database, ids))
    connection.execute(free(ours.order_by(email.c.id), email)).all()
    return frozenset(ids) - _recipients(connection, database, token, list(ids)).keys()


def _recipients(
    connection: Connection, database: Database, token: UUID, ids: list[int]
) -> dict[int, list[Any]]:
    """Return the recipients of these emails by their ids, read where the claim is seen, too.

    A proxy may send this statement to a replica that lags behind the one before. Without the token
    it would answer with recipients as they were before the email's last attempt.
    """
    found: dict[int, list[Any]] = defaultdict(list)
    table, email = database.tables.recipient, database.tables.email
    for part in parts(ids):
        statement = (
            select(table.c.email_id, table.c.address, table.c.status)
            .join(email, email.c.id == table.c.email_id)
            .where(table.c.email_id.in_(part), email.c.token == token)
            .order_by(table.c.email_id, table.c.position)
        )
        for row in connection.execute(statement):
            found[row.email_id].append(row)
    return found


def _barred(
    connection: Connection, database: Database, shared: Any, emails: Iterable[ClaimedEmail]
) -> _Barred:
    """Return the recipients that get no email. `shared` tells which lists are not empty."""
    if not (shared.listed or shared.erased):
        return _NOBODY
    addresses = [address for email in emails for address in email.envelope.recipients]
    keys = map(suppression_key, addresses)
    erased = erased_among(connection, database, keys) if shared.erased else _NONE
    if not shared.listed:
        return _Barred(all=erased, erased=erased)
    listed = barred_among(connection, database, addresses, erased=False)
    return _Barred(all=listed | erased, erased=erased)


def _without(email: ClaimedEmail, barred: frozenset[str]) -> ClaimedEmail:
    gone = frozenset(
        address for address in email.envelope.recipients if suppression_key(address) in barred
    )
    if not gone:
        return email
    kept = tuple(address for address in email.envelope.recipients if address not in gone)
    # A suppressed recipient in doubt stays in doubt, because it may have a copy.
    return replace(
        email,
        envelope=replace(email.envelope, recipients=kept),
        suppressed=gone - email.doubtful,
    )
