"""What beat and the Celery tasks do, in one thread and without a broker; it counts."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import union_all

from outbox import Priority
from outbox.store.queries.sweep import server_limits
from outbox.store.queries.sweep.tagged_rows import Findings, now
from outbox.store.records import Claim
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.sweep import sweep
from tests.support.shop.shop import Shop, addresses, newsletter

HOT = 30
"""Batches from one beat to the next from which on it is a loop that does not end by itself."""


@dataclass(kw_only=True)
class Motion:
    """The workers of one shop. A task that did something sweeps on, as `outbox.send` does."""

    shop: Shop
    waiting: deque[Claim] = field(default_factory=deque)  # handed out, not started yet
    claims: list[Claim] = field(default_factory=list)  # all that were ever made
    wakes: list[float] = field(default_factory=list)

    def sweep(self) -> list[Claim]:
        """Sweep once; the batches wait for `work`. Return them."""
        before = len(self.claims)
        sweep(self.shop.runtime, self.claims.append, self.wakes.append)
        self.waiting.extend(self.claims[before:])
        return self.claims[before:]

    def work(self) -> bool:
        """Run the next task alone, without the sweep behind it; return what it says of that."""
        return send_batch(self.shop.runtime, self.waiting.popleft().token).is_worth_a_sweep

    def beat(self) -> int:
        """Sweep, run all tasks and the sweeps that they cause; return how many were run."""
        self.sweep()
        tasks = 0
        while self.waiting:
            tasks += 1
            assert tasks < HOT, "claimed and given back without end"
            if self.work():
                self.sweep()
        return tasks

    def until_empty(self, step: float = 1.0, beats: int = 100) -> None:
        """Let beat go on, so many seconds of the database's clock apart, until nothing waits."""
        for _ in range(beats):
            self.beat()
            if not {"pending", "claimed"} & set(self.shop.statuses()):
                return
            self.shop.later(step)
        raise AssertionError(f"after {beats} beats: {Counter(self.shop.statuses())}")


def server(name: str, port: int, **options: Any) -> dict[str, Any]:
    """Return one entry of `OUTBOX_SERVERS`."""
    return {"name": name, "server": "127.0.0.1", "port": port, **options}


def write(shop: Shop, count: int, *, tag: str | None = None, **options: Any) -> list[int]:
    """Write so many emails of one content, each to another reader; return their ids."""
    options.setdefault("priority", Priority.NORMAL)
    with shop.session() as session:
        shop.outbox.enqueue_many(
            newsletter(), addresses(count), session=session, tag=tag, **options
        )
        session.commit()
    email = shop.tables.email
    return [row.id for row in shop.rows(email)][-count:]


def standing(shop: Shop) -> Counter[tuple[str, int, int, int]]:
    """Count the emails by status, attempts, crashes and unknown results."""
    return Counter(
        (row.status, row.attempts, row.crashes, row.unknown_count)
        for row in shop.rows(shop.tables.email)
    )


def attempts(shop: Shop) -> Counter[tuple[str, str]]:
    """Count the logged attempts by server and verdict."""
    return Counter((row.server, row.verdict) for row in shop.rows(shop.tables.attempt))


def halted(shop: Shop) -> set[str]:
    """Return the servers whose breaker is open, or waits for a probe."""
    return {row.server for row in shop.rows(shop.tables.breaker)}


def limits(shop: Shop) -> dict[str, int]:
    """Return the servers that take no batches, or not all, as a sweep finds them."""
    statement = union_all(now(shop.database), *server_limits.limiting(shop.database))
    found = shop.database.read(lambda connection: Findings(connection, statement, {}))
    return server_limits.limits(found)
