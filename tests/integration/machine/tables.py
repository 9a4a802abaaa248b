"""The outbox as the machine sees it: its tables, its clock, and what a worker would conclude."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox.domain.config.settings import OnUnknown
from outbox.domain.delivery.outcome import decide_outcome
from outbox.domain.delivery.transaction import Phase, RecipientResult, Reply, Transaction, Verdict
from outbox.store.records import ClaimedEmail, EmailResult
from tests.integration.machine.model import JITTER, MAX_ATTEMPTS, MAX_CRASHES, Model
from tests.support.shop.facts import facts
from tests.support.shop.shop import Shop, entry

SLACK = 10.0
"""Seconds that one step may take; a longer one is mistaken for a lapse of time."""


@dataclass(kw_only=True)
class Worker:
    """A send task that started a lease: what it remembers, stale or not."""

    token: UUID
    left: dict[int, ClaimedEmail]
    window: dict[int, ClaimedEmail] = field(default_factory=dict)
    decided: set[int] = field(default_factory=set)  # emails that a person has spoken about since


class Clock:
    """Moves the database's clock, and the model's with it.

    The model's stands still in between. So before time is told, it goes past every moment that the
    real one may reach meanwhile: then both agree on what is over.
    """

    def __init__(self, shop: Shop, model: Model) -> None:
        self._shop, self._model = shop, model
        self._began = time.monotonic()
        self._start = shop.database.offset

    def later(self, seconds: float) -> None:
        self._shop.later(seconds)
        self._model.now = self._shop.database.offset - self._start

    def settle(self, *more: float) -> None:
        passed = time.monotonic() - self._began + SLACK
        while near := [
            m for m in [*self._model.moments(), *more] if 0 < m - self._model.now < passed
        ]:
            self.later(max(near) - self._model.now)


@dataclass(frozen=True, kw_only=True)
class Tables:
    """All that is committed, as the model would have it."""

    emails: dict[int, tuple[object, ...]]
    leases: dict[UUID, tuple[bool, bool]]
    customers: set[str]
    looked_up: set[int]  # the emails that the lookup has


def committed(shop: Shop) -> Tables:
    email, lease = shop.tables.email.c, shop.tables.lease.c
    emails = sa.select(
        email.id, email.status, email.token, email.unknown_token, email.attempts, email.crashes,
        email.unknown_count, email.due_at.is_not(None), email.finished_at.is_not(None),
        email.attention_at.is_not(None),
    )  # fmt: skip
    held = sa.select(lease.token, lease.started_at.is_not(None), lease.suspected_at.is_not(None))

    def read(connection: sa.Connection) -> Tables:
        return Tables(
            emails={row[0]: tuple(row[1:]) for row in connection.execute(emails)},
            leases={row[0]: (bool(row[1]), bool(row[2])) for row in connection.execute(held)},
            customers=set(connection.execute(sa.select(shop.orders.c.customer)).scalars()),
            looked_up=set(connection.execute(sa.select(shop.tables.lookup.c.email_id)).scalars()),
        )

    return shop.database.read(read)


def in_order(shop: Shop, ids: set[int]) -> list[int]:
    """Return these emails in the order in which they are due.

    The model's clock stands still between two of them, so it cannot tell.
    """
    email = shop.tables.email.c
    due = sa.select(email.id).where(email.due_at.is_not(None)).order_by(email.due_at, email.id)
    found = shop.database.read(lambda connection: connection.execute(due).scalars().all())
    return sorted(ids, key=found.index)


def results(window: Sequence[tuple[ClaimedEmail, str]]) -> list[EmailResult]:
    """Return what a worker would record for these emails, by the library's own rule."""
    return [_result(mail, verdict) for mail, verdict in window]


def _result(mail: ClaimedEmail, verdict: str) -> EmailResult:
    reply = Reply(code={"sent": 250, "retry": 450, "fail": 550}.get(verdict, 0), text="told")
    (address,) = mail.envelope.recipients
    judged = Verdict(verdict)
    result = Transaction(
        verdict=judged,
        phase=Phase.DOT,
        reply=reply,
        recipients=(RecipientResult(address=address, verdict=judged, reply=reply),),
    )
    known = facts(
        mail,
        max_attempts=mail.max_attempts or MAX_ATTEMPTS,
        max_crashes=MAX_CRASHES,
        on_unknown=mail.on_unknown or OnUnknown.RESEND,
    )
    return entry(mail.id, decide_outcome(known, result, random=lambda: JITTER), judged)


def wipe(shop: Shop) -> None:
    """Empty every table for the next example."""
    tables: list[Any] = [
        shop.tables.attempt, shop.tables.recipient, shop.tables.email, shop.tables.content,
        shop.tables.lease, shop.tables.pause, shop.tables.counter, shop.tables.purge,
        shop.tables.straggler, shop.tables.body_straggler, shop.tables.tally, shop.tables.stat,
        shop.tables.lookup,
        shop.orders,
    ]  # fmt: skip
    with shop.engine.begin() as connection:
        for table in tables:
            connection.execute(sa.delete(table))
