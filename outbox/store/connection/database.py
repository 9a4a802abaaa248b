"""The outbox's own transactions: short, retried on deadlock, never open during SMTP."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import fields
from math import inf
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection, Engine, Row, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from ..encryption.cipher import Cipher
from ..encryption.tombstones import Tombstones
from ..harmless_log import harmless_log
from ..hidden_values import VALUES_HIDDEN
from ..schema.clock import Offset, clock
from ..schema.table_names import name_of
from ..schema.tables import Tables
from .drivers import in_memory
from .endings import Audience, Ending, Nobody, noted
from .error_codes import TablesNeeded, is_lock_timeout, is_transient, refuse_missing_tables
from .facts import facts_of
from .lending import isolated
from .psycopg.prepared_statements import asked
from .sqlite.lost_transaction import TransactionLost, repeat
from .sqlite.memory import Shared
from .sqlite.write_lock import BEGIN, begin_immediate, lock_tries
from .turns import Turns

Result = TypeVar("Result")

TRIES = 8
STATEMENTS = 200
"""The most statements that are kept. They differ by few keys: batch sizes, lanes, priorities."""
TOLD = 60.0
"""Seconds for which a process tells of no further wait for a lock."""

_WAITS = (
    "outbox: another transaction has kept a write waiting for %.0f s, and the write is tried again:"
    " a report on the outbox's tables belongs under READ COMMITTED, see 'Reports on MariaDB' in"
    " docs/reference/databases.md"
)


Bound = Callable[[Connection], AbstractContextManager[None]]
"""Has the statements of a block fail that wait long for a lock, until their transaction ends."""

reads_bounded: ContextVar[tuple[Database, Bound] | None] = ContextVar("reads_bounded", default=None)
"""How long plain reads of a database wait here for a lock; see `bounded_waits.bounded_reads`."""


class Database:
    """An engine and the outbox's tables on it.

    `offset` seconds are added to the database's clock: tests travel in time with it. On SQLite a
    transaction waits `patience` seconds for the write lock. A lease must be over twice as long.
    The `audience` is told of emails that the outbox's own transactions ended, after the commit.
    What a message says is stored and read with the `cipher`. Erased addresses are known again by
    their `tombstones`. If the tables are missing, `elsewhere` tells in which other schema they are.
    """

    def __init__(
        self,
        engine: Engine,
        tables: Tables,
        *,
        offset: float = 0.0,
        patience: float = 10.0,
        audience: Audience | None = None,
        cipher: Cipher | None = None,
        tombstones: Tombstones | None = None,
        elsewhere: Callable[[Database], str | None] = lambda _: None,
    ) -> None:
        self.engine = engine
        self.tables = tables
        self.dialect = engine.dialect.name  # for `backend_of`; its properties are in `facts`
        self.facts = facts_of(self.dialect)
        self._offset = Offset(offset)
        self.patience = patience
        self.audience = audience or Nobody()
        self.cipher = cipher or Cipher()
        self.tombstones = tombstones or Tombstones()
        self.tables_needed = TablesNeeded(self.refuse_missing_tables)
        self._elsewhere = elsewhere
        self._shared = Shared(engine, patience) if in_memory(engine) else None
        self._turns: Turns | None = None
        self.avoided = dict[tuple[Hashable, str], float]()  # rows, and until when: `shared_rows`
        self.failing = dict[int, float]()  # emails, and until when: `control/passed_over.py`
        self.locked_leases = dict[UUID, tuple[float, float]]()  # see `control/locked_leases.py`
        self._built: dict[Hashable, Any] = {}
        self._told = -inf  # when it last told of a wait for a lock

    @property
    def offset(self) -> float:
        """The seconds that are added to the database's clock."""
        return self._offset.seconds

    @offset.setter
    def offset(self, seconds: float) -> None:
        self._offset.seconds = seconds

    @property
    def connections(self) -> float:
        """The most connections that the engine's pool gives out at once; infinite if unlimited."""
        pool = self.engine.pool
        overflow = getattr(pool, "_max_overflow", -1)
        if not isinstance(pool, QueuePool) or pool.size() == 0 or overflow < 0:
            return inf
        return float(pool.size() + overflow)

    @property
    def kept(self) -> float:
        """The connections that the engine's pool keeps open; infinite if it has no bound."""
        pool = self.engine.pool
        if isinstance(pool, QueuePool) and self.connections < inf:
            return float(pool.size())
        return inf

    def share(self, places: int) -> None:
        """Have all threads of this process share so many connections, each in turn.

        They use no more than the pool keeps open. The pool would close each further connection
        after its use, and a new connection costs more than a short wait.
        """
        self._turns = Turns(max(1, int(min(places, self.kept))))

    @property
    def is_shared(self) -> bool:
        """Whether the threads of this process share its connections: several tasks run in it."""
        return self._turns is not None

    def after_fork(self) -> None:
        """Have a child of a fork share nothing with its parent: not even whose turn it is."""
        if self._turns is not None:
            self._turns = Turns(self._turns.places)

    def name(self, table: Table) -> str:
        """Return the table's name for a statement that is written by hand."""
        return name_of(table, self.engine)

    @property
    def names(self) -> list[str]:
        """The names of all of the outbox's tables, for statements that are written by hand."""
        return [self.name(getattr(self.tables, each.name)) for each in fields(self.tables)]

    def now(self, seconds: float = 0.0) -> clock:
        """Return the SQL expression for the database's time plus `seconds`."""
        offset = self._offset  # not `self`: the engine keeps its statements, and so the whole app
        return clock(lambda: offset.seconds + seconds)

    def built(self, build: Callable[..., Result], *key: Hashable) -> Result:
        """Return the statement that `build` makes for this database and key, and keep it.

        Building a statement in Python takes longer than running it.
        """
        place = (build, *key)
        if place not in self._built:
            if len(self._built) >= STATEMENTS:
                self._built.clear()
            self._built[place] = build(self, *key)
        found: Result = self._built[place]
        return found

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one transaction, commit it and return its result.

        After a deadlock it runs again, up to TRIES times in all. So `work` may do nothing but SQL.
        It also does where an email's row has ended the transaction, and then without that email.
        Raises DBAPIError, and MissingTables in its place where the tables do not exist.
        """
        try:
            return self._run(work)
        except TransactionLost as lost:
            return repeat(self._run, work, lost)

    def _run(self, work: Callable[[Connection], Result]) -> Result:
        for left in reversed(range(TRIES)):
            began = time.monotonic()
            try:
                with self.transaction() as connection:
                    if not self.audience.wants:
                        return work(connection)
                    with noted(connection) as endings:
                        result = work(connection)
            except DBAPIError as error:
                if left and is_transient(error):
                    self._tell_wait(error, time.monotonic() - began)
                is_lock = error.statement == BEGIN
                less = (TRIES - lock_tries(self.patience, TRIES)) * is_lock
                self._wait_or_raise(error, left - less)
            else:
                self.tell(endings)
                return result
        raise AssertionError("unreachable")

    def _tell_wait(self, error: DBAPIError, seconds: float) -> None:
        """Log that the server has ended a wait for a lock: MariaDB and MySQL do so after 50 s."""
        if is_lock_timeout(error) and time.monotonic() - self._told > TOLD:
            self._told = time.monotonic()
            harmless_log.warning(_WAITS, seconds)

    def tell(self, endings: Iterable[Ending]) -> None:
        """Tell the audience of emails whose end is committed."""
        if wants := self.audience.wants:
            found = [ending for ending in endings if ending.status in wants]
            if found:
                self.audience.tell(found)

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work`, which only reads, in autocommit: without locks and extra round trips.

        Raises DBAPIError, and MissingTables in its place where the tables do not exist.
        """
        if (found := reads_bounded.get()) is not None and found[0] is self:
            with self.tables_needed, self.transaction() as connection, found[1](connection):
                return work(connection)
        with self.tables_needed, self._lent("AUTOCOMMIT") as connection, asked(connection):
            return work(connection)

    def run_each(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work`, each of whose statements may be committed alone: that saves round trips.

        Where only one transaction writes at a time, the work is one transaction. Raises as `read`
        does.
        """
        return self.run(work) if self.facts.one_writer else self.read(work)

    def run_alone(
        self, statement: str, values: dict[str, Any], *, tries: int = TRIES
    ) -> Sequence[Row[Any]]:
        """Run one statement in the driver's own form as a transaction; retry it on a deadlock.

        In autocommit it takes one round trip instead of three. It is only used on PostgreSQL.
        """
        for left in reversed(range(tries)):
            try:
                with self._lent("AUTOCOMMIT") as connection, asked(connection):
                    return connection.exec_driver_sql(statement, values).all()
            except DBAPIError as error:
                self._wait_or_raise(error, left)
        raise AssertionError("unreachable")

    @contextmanager
    def transaction(self, patience: float | None = None) -> Iterator[Connection]:
        """Open a transaction that commits at the end; SQLite may have another `patience`."""
        isolation = "AUTOCOMMIT" if self.facts.one_writer else "READ COMMITTED"
        with self._lent(isolation) as connection, connection.begin(), asked(connection):
            if self.facts.one_writer:
                begin_immediate(connection, patience or self.patience)
            yield connection

    def refuse_missing_tables(self, error: BaseException) -> None:
        """Raise MissingTables in the place of such an error; return for any other one."""
        refuse_missing_tables(error, lambda: self._elsewhere(self))

    def _wait_or_raise(self, error: DBAPIError, left: int) -> None:
        self.refuse_missing_tables(error)
        if left <= 0 or not is_transient(error):
            raise error
        # Full jitter: two transactions that met in a deadlock must not meet again.
        time.sleep(random.random() * 0.05 * (TRIES - left))  # noqa: S311

    def refuse_busy(self) -> None:
        """Raise Busy if the only connection of a database in memory is in a transaction."""
        if self._shared is not None:
            self._shared.refuse_busy()

    @contextmanager
    def _lent(self, isolation: str) -> Iterator[Connection]:
        """Lend a connection: all of the outbox's own statements go over one of these.

        Raises Busy if the only one is in a transaction.
        """
        with VALUES_HIDDEN, self._taken(isolation) as connection:
            yield connection

    def _taken(self, isolation: str) -> AbstractContextManager[Connection]:
        if self._shared is not None:
            return self._shared.lent(isolation)
        if self._turns is not None:
            return self._in_turn(self._turns, isolation)
        return isolated(self.engine, isolation)

    @contextmanager
    def _in_turn(self, turns: Turns, isolation: str) -> Iterator[Connection]:
        with turns, isolated(self.engine, isolation) as connection:
            yield connection
