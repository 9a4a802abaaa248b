"""What the pages have to tell: figures of a day, workers, halted servers, newsletters."""

from __future__ import annotations

import math
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from outbox import Status
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.transaction import Verdict
from outbox.domain.figures.histogram import NO_BIN, bin_of
from outbox.domain.figures.spans import HOUR, MINUTE, minute_of
from outbox.domain.version import __version__
from outbox.store.control.circuit_breaker import trip
from outbox.store.schema.clock import utc
from outbox.worker.fleet.inquiry import OURS
from tests.support.shop.shop import Shop, addresses, newsletter

SERVER = "mx.example:25"
MINUTES = 60


def figures(shop: Shop, *, server: str = SERVER) -> None:
    """Write what became of the attempts of the last week: mostly accepted, some refused."""
    now = shop.database.read(
        lambda connection: connection.execute(sa.select(shop.database.now())).scalar_one()
    )
    minute = minute_of(utc(now))
    rows = [
        row
        for span, step, points in ((MINUTE, 1, MINUTES), (HOUR, MINUTES, 168))
        for point in range(points)
        for row in _attempts(span, minute // step * step - point * step, point, step, server)
    ]
    with shop.engine.begin() as connection:
        connection.execute(sa.insert(shop.tables.stat), rows)


def _attempts(span: int, minute: int, point: int, step: int, server: str) -> list[dict[str, Any]]:
    """Return the counts of one minute or hour; they rise and fall like those of days."""
    accepted = round(step * (120 + 80 * math.sin(point / 7) + point % 5 * 9))
    seconds = 0.08 * (1 + (point % 11) / 4)
    counts = [
        (Verdict.SENT, 0, bin_of(round(seconds * 1e6)), round(accepted * 0.9)),
        (Verdict.SENT, 0, bin_of(round(seconds * 9e6)), round(accepted * 0.08)),
        (Verdict.SENT, 0, bin_of(round(seconds * 4e7)), round(accepted * 0.02)),
        (Verdict.RETRY, 451, NO_BIN, step * (point % 4)),
        (Verdict.FAIL, 550, NO_BIN, step * (point % 3)),
        (Verdict.UNKNOWN, 0, NO_BIN, step * (point % 17 == 5)),
    ]
    return [
        {
            "span": span, "minute": minute, "server": server, "route": "", "priority": 5,
            "verdict": str(verdict), "code": code, "bin": number, "attempts": attempts,
        }
        for verdict, code, number, attempts in counts
        if attempts
    ]  # fmt: skip


def worker(shop: Shop, name: str, *, seen: float = 2.0, **changes: Any) -> None:
    """Write a worker down that was seen so many seconds ago."""
    database = shop.database
    values: dict[str, Any] = {
        "id": uuid4(), "name": name, "host": "elsewhere", "boot": "", "pid": 17,
        "process_start": 1, "queues": " ".join(OURS),
        "pool": "prefork", "concurrency": 4, "slots": 4, "tasks": 1, "version": __version__,
        "settings": "{}", "started_at": database.now(-3600.0), "seen_at": database.now(-seen),
    }  # fmt: skip
    with shop.engine.begin() as connection:
        connection.execute(sa.insert(shop.tables.worker).values(**values | changes))


def fleet(shop: Shop) -> None:
    """Write down a worker at work, an idle one, a dead one, and a beat."""
    worker(shop, "celery@mail-1")
    worker(shop, "celery@mail-2", tasks=0)
    worker(shop, "celery@mail-3", seen=400.0, queues="outbox.bulk")
    worker(shop, "beat@mail-1", pool="beat", queues="", slots=0, concurrency=0, tasks=0)


def halted(shop: Shop, server: str) -> None:
    """Halt a server, so that a person must see to it."""
    reason = "auth: 535 <b>no entry</b>"
    trip(shop.database, server, cause=Cause.SESSION, reason=reason, alert=True)


def send(shop: Shop, tag: str, readers: int = 5) -> None:
    """Enqueue a newsletter."""
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(readers), tag=tag, session=session)
        session.commit()


def ended(shop: Shop, tag: str, status: Status, readers: int) -> None:
    """Let some of a newsletter's emails have ended so, by the steps that lead there."""
    email, now = shop.tables.email, shop.database.now()
    which = email.c.tag == tag, email.c.status == Status.PENDING
    steps: list[dict[str, Any]] = [
        {"status": Status.CLAIMED, "due_at": None, "token": uuid4()},
        {"status": Status.SENDING},
        {"status": status, "token": None, "finished_at": now},
    ]
    with shop.engine.begin() as connection:
        chosen = sa.select(email.c.id).where(*which).order_by(email.c.id).limit(readers)
        ids = connection.execute(chosen).scalars().all()
        for values in steps:
            connection.execute(sa.update(email).where(email.c.id.in_(ids)).values(**values))


def doubt(shop: Shop) -> None:
    """Let each email that waits be in doubt: a copy of it may have arrived."""
    email = shop.tables.email
    waits = sa.update(email).where(email.c.status == Status.PENDING)
    with shop.engine.begin() as connection:
        connection.execute(waits.values(unknown_count=1, attempts=1))
