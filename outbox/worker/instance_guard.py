"""Keeps a copy of the outbox, or a restored backup, from sending: each process asks before a claim.

A process whose migration was forgotten sends nothing either: each of its statements may fail.

What it finds holds for a minute, so a sweep costs no statement more. It asks anew at once after a
new connection, because the database may have been restored under a running process; and after a
sweep saw another instance than the one it knows.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from math import inf

from sqlalchemy import Dialect, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool, Pool

from ..store.connection.database import Database
from ..store.connection.error_codes import describe
from ..store.instance import examine
from ..store.queries.inspect_schema import older_schema

_log = logging.getLogger("outbox")

TRUST = 60.0
"""Seconds for which a process goes on without asking again."""
RETRY = 5.0
"""Seconds until it asks again where it may not send, and the least between two asked for by new
connections."""


class InstanceGuard:
    """Knows whether this process may send. `name` is OUTBOX_INSTANCE."""

    def __init__(
        self, database: Callable[[], Database], name: str, *, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self._database = database
        self._clock = clock
        self._asked = -inf
        self._until = -inf  # until then what it found holds
        self._may_guess = False  # if it cannot ask, what it found before still holds
        self._instance = ""
        self._refusal: str | None = None
        self._dialect: Dialect | None = None

    def refusal(self, seen: str = "") -> str | None:
        """Return why nothing may be sent, or None; `seen` is the instance that a sweep has read.

        Raises DBAPIError if the database does not answer and it was never asked before.
        """
        is_other = bool(seen) and seen != self._instance
        if is_other or self._clock() >= self._until:
            self._ask()
        return self._refusal

    @property
    def id(self) -> str:
        """The id that the tables have noted of this outbox; "" as long as it is not known here."""
        return self._instance

    def forget(self) -> None:
        """Ask again before anything is sent: the database may be another one now."""
        self._until = min(self._until, self._asked + RETRY)
        self._may_guess = False

    def watch(self, engine: Engine) -> None:
        """Ask again after each new connection of this engine.

        Nothing is added to the engine: other threads may be going through its listeners.
        """
        if not isinstance(engine.pool, NullPool):  # there each statement has a new one
            self._dialect = engine.dialect
            # The list may not hold the guard, and with it the app.
            _watching.append(weakref.ref(self, _watching.remove))

    def forget_for(self, dialect: Dialect | None) -> None:
        """Ask again if a new connection may be of the engine with this dialect: it has its own."""
        if dialect is None or dialect is self._dialect:
            self.forget()

    def _ask(self) -> None:
        database = self._database()
        try:
            behind = older_schema(database)
            found = None if behind else examine.admit(database, self.name)
        except SQLAlchemyError as error:
            if not self._may_guess:
                raise
            _log.warning("outbox: the instance could not be examined (%s)", describe(error))
            self._until = self._clock() + RETRY
            return
        refusal = found.refusal if found else behind
        self._tell(refusal)
        self._refusal = refusal
        self._asked, self._may_guess = self._clock(), True
        self._until = self._asked + (RETRY if refusal else TRUST)
        if found is not None:
            self._note(database, found)

    def _tell(self, refusal: str | None) -> None:
        """Log a refusal once, and its end."""
        values = {"event": "instance_refused", "refusal": refusal}
        if refusal is not None and refusal != self._refusal:
            _log.error("outbox: %s", refusal, extra={"outbox": values})
        elif refusal is None and self._refusal is not None:
            _log.warning("outbox: this instance sends again", extra={"outbox": values})

    def _note(self, database: Database, found: examine.Examination) -> None:
        """Remember the instance, and tell that another server took over."""
        self._instance = "" if found.instance is None else found.instance.id
        if found.refusal is None and found.is_taken_over:
            _log.warning(
                "outbox: another database server took over; results of its last moments may be lost"
            )
        if found.place.is_standby:  # it does not tell its timeline before it is promoted
            self._until = self._asked
        self._keep(database, found)

    def _keep(self, database: Database, found: examine.Examination) -> None:
        try:
            examine.keep(database, self.name, found)
        except SQLAlchemyError as error:  # no email waits for it, and the next minute tries again
            _log.warning("outbox: the instance was not noted (%s)", describe(error))


_watching: list[weakref.ref[InstanceGuard]] = []


def _connected(_: object, record: object) -> None:
    """Tell the guards of a new connection's engine, also where another pool has replaced its first.

    SQLAlchemy does not say publicly whose the connection is. If it no longer says so at all, all
    guards ask again.
    """
    pool = getattr(record, "_ConnectionRecord__pool", None)
    for found in _watching[:]:
        if (guard := found()) is not None:
            guard.forget_for(getattr(pool, "_dialect", None))


event.listen(Pool, "connect", _connected)  # at the import, while nobody connects
