"""One shop on one database with the server that survives, set back to its beginning at will."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa

from outbox.store.control import counter
from outbox.worker.instance_guard import InstanceGuard
from tests.kill.stage.faults import Fault
from tests.kill.stage.judgement import Moment, Recording
from tests.kill.stage.ledger import Ledger
from tests.kill.stage.nursery import End, Nursery
from tests.kill.stage.shop import LEASE, WINDOW, Config, Shop, build, enqueue_batch
from tests.kill.stage.tally import Tally
from tests.kill.stage.tracer import Kind
from tests.support.servers.brokers.redis import RedisServer
from tests.support.shop.watching.recount import counted, recount
from tests.support.turns import DATABASES

T = TypeVar("T")


@dataclass(kw_only=True)
class Stage:
    """Where processes die."""

    shop: Shop
    ledger: Ledger
    redis: RedisServer
    nursery: Nursery
    pipelining: bool
    hold: bool
    config: Config
    share: int = 1  # each database tries one of so many points
    part: int = 0
    parts: int = 1  # in which a test splits its points
    say: Callable[[str], None] = print
    _first: dict[sa.Table, list[dict[str, Any]]] = field(default_factory=dict)
    _recordings: dict[str, Recording] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The combination, as it is printed."""
        server = "pipelining" if self.pipelining else "one by one"
        policy = "hold" if self.hold else "resend"
        part = f", {self.part + 1} of {self.parts}" if self.parts > 1 else ""
        return f"{self.shop.engine.dialect.name}, {server}, {policy}{part}"

    def turn(self, points: Sequence[T]) -> Sequence[T]:
        """Return those that this database tries: all, or its share, from another one on."""
        place = DATABASES.index(self.shop.engine.dialect.name)
        return points[place * self.share // len(DATABASES) :: self.share]

    def portion(self, moments: Sequence[Moment]) -> Sequence[Moment]:
        """Return those of this part, one of so many of each kind: the first part has each kind."""
        met, ours = Counter[Kind](), list[Moment]()
        for moment in moments:
            if met[moment.kind] % self.parts == self.part:
                ours.append(moment)
            met[moment.kind] += 1
        return ours

    def begin(self) -> None:
        """Put the six emails into an empty table, the same rows each time; empty the broker."""
        self.clear()
        runtime, tables = self.shop.runtime, self.shop.runtime.tables
        # Noted now, so that no process notes it: which one does would depend on the time of day.
        InstanceGuard(lambda: runtime.database, "", clock=runtime.clock).refusal()
        kept = (tables.content, tables.email, tables.recipient)
        if not self._first:
            enqueue_batch(self.shop)
            with self.shop.engine.connect() as connection:
                for table in kept:
                    rows = connection.execute(sa.select(table)).mappings()
                    given = [c.name for c in table.c if c.computed is None]
                    self._first[table] = [{name: row[name] for name in given} for row in rows]
            return
        with self.shop.engine.begin() as connection:
            for table in kept:
                connection.execute(sa.insert(table), self._first[table])

    def clear(self) -> None:
        """Remove every email, order and message, and what the server remembers."""
        tables = self.shop.runtime.tables
        emptied = (
            tables.attempt, tables.recipient, tables.email, tables.content, tables.lease,
            tables.breaker, tables.server, tables.bucket, tables.counter, tables.tally,
            tables.stat, tables.instance, self.shop.orders,
        )  # fmt: skip
        with self.shop.engine.begin() as connection:
            for table in emptied:
                connection.execute(sa.delete(table))
        self.redis.flushall()
        self.ledger.forget()

    def clear_whole(self) -> None:
        """Clear each table, also those in which only a process of Celery's writes."""
        with self.shop.engine.begin() as connection:
            for table in reversed(self.shop.orders.metadata.sorted_tables):
                connection.execute(sa.delete(table))
        self.clear()

    def record(self, **worker: Any) -> Recording:
        """Let a worker do all of it undisturbed, and note each of its points.

        Another test may have recorded it. Each fault shows whether its process came the same way.
        """
        if (key := repr(worker)) not in self._recordings:
            self.begin()
            self._recordings[key] = self.record_on(0.0, **worker)
        return self._recordings[key]

    def record_on(self, offset: float, **worker: Any) -> Recording:
        """Note the points of a worker that goes on with what stands in the table."""
        before = len(self.ledger.contents)
        end = self.nursery.run("worker trace", offset=offset, **worker)
        assert end.done
        return Recording.of(
            end.facts["points"],
            self.ledger.contents,
            self.shop.standing(),
            tasks=end.facts["tasks"],
            before=before,
        )

    def kill(self, moment: Moment, tally: Tally, offset: float = 0.0) -> float:
        """Kill a process at this point, and see that it stood there; return the clocks' offset."""
        end = self.nursery.run("worker trace", offset=offset, fault=Fault.KILL, at=moment.number)
        assert end.signal is signal.SIGKILL
        assert not end.done
        self.ledger.wait_idle()
        tally.expect(moment, "died at", end.facts["point"], moment.what)
        tally.expect(moment, "left", self.shop.standing(), moment.standing)
        return end.offset

    def stop(self, moment: Moment, tally: Tally, offset: float = 0.0, **worker: Any) -> End:
        """Stop a process at this point (SIGSTOP), and see that it stood there."""
        end = self.nursery.run(
            "worker trace", offset=offset, fault=Fault.STOP, at=moment.number, **worker
        )
        assert end.signal is signal.SIGSTOP
        assert not end.done
        tally.expect(moment, "stopped at", end.facts["point"], moment.what)
        return end

    def go_on(self, offset: float, *, sees_deaths: bool = False) -> End:
        """Have another worker go on from there until nothing is due."""
        end = self.nursery.run("worker", offset=offset, sees_deaths=sees_deaths)
        assert end.done
        self.ledger.wait_idle()
        return end

    def copies(self) -> Counter[str]:
        """Return each recipient's copies. Each of them is of the email that is in the table."""
        email, recipient = self.shop.runtime.tables.email, self.shop.runtime.tables.recipient
        with self.shop.engine.connect() as connection:
            rows = connection.execute(sa.select(email.c.id, email.c.recipient, email.c.message_id))
            emails = {row.id: row for row in rows}
            owners = {row.recipient: row.message_id for row in emails.values()}
            for row in connection.execute(sa.select(recipient.c.email_id, recipient.c.address)):
                owners[row.address] = emails[row.email_id].message_id
        copies: Counter[str] = Counter()
        for (address, message_id), count in self.ledger.copies().items():
            assert owners[address] == message_id, "a copy of no email"
            copies[address] += count
        return copies

    def statuses(self) -> dict[str, str]:
        """Return how each recipient's email ended."""
        return {address: mail for address, (mail, _) in self.shop.standing().items()}

    def miscounted(self) -> dict[str, int]:
        """Return where what was counted differs from the attempt log; empty if nowhere."""
        engine, tables = self.shop.observer, self.shop.runtime.tables
        found, expected = counted(engine, tables), recount(engine, tables)
        keys = found.keys() | expected.keys()
        return {str(key): found[key] - expected[key] for key in keys if found[key] != expected[key]}

    def bare(self) -> set[str]:
        """Return the first recipients of the emails of which no octet is left."""
        email, content = self.shop.runtime.tables.email, self.shop.runtime.tables.content
        whole = sa.select(email.c.recipient, email.c.headers, content.c.body).join_from(
            email, content, content.c.id == email.c.content_id
        )
        with self.shop.observer.connect() as connection:
            rows = connection.execute(whole).all()
        return {row.recipient for row in rows if not row.headers + row.body}

    def orders(self) -> set[str]:
        """Return the customers whose orders are committed."""
        with self.shop.observer.connect() as connection:
            return set(connection.execute(sa.select(self.shop.orders.c.customer)).scalars())

    def counters(self) -> dict[str, int]:
        """Return the counters of rare events."""
        database = self.shop.runtime.database
        return database.read(lambda connection: counter.read(connection, database))


@contextmanager
def staged(
    url: str, redis: RedisServer, *, pipelining: bool = True, hold: bool = False
) -> Iterator[Stage]:
    """Set up all of it, with a nursery that is warm."""
    with Ledger(pipelining=pipelining) as ledger:
        config = {
            "database": url,
            "broker": redis.url,
            "MAIL_SERVER": "127.0.0.1",
            "MAIL_PORT": ledger.port,
            "OUTBOX_WINDOW": WINDOW,
            "OUTBOX_BATCH": 50,
            "OUTBOX_SLOTS": 2,
            "OUTBOX_LEASE": LEASE,
            "OUTBOX_ON_UNKNOWN": "hold" if hold else "resend",
        }
        shop = build({**config, "OUTBOX_NUDGE": False})
        metadata = shop.orders.metadata
        metadata.create_all(shop.engine)
        try:
            with Nursery(config) as nursery:
                stage = Stage(
                    shop=shop,
                    ledger=ledger,
                    redis=redis,
                    nursery=nursery,
                    pipelining=pipelining,
                    hold=hold,
                    config=config,
                )
                stage.begin()
                nursery.warm_up()
                yield stage
        finally:
            shop.dispose()
