"""Many emails come in one transaction: what they are read from may not end it half-way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, NestedTransaction, event

from ...domain.errors import ConfigurationError
from .caller_transaction import savepoint
from .unread_results import read_first

Chunk = TypeVar("Chunk")

ENDED = (
    "what enqueue_many reads has ended the transaction of its session (commit, rollback or close):"
    " all emails or none are written. Read it into a list first, or read it over another session"
)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The caller's session, as far as a run of many emails has to do with it."""

    settle: Callable[[], object]
    """Writes what waits in the session. It is called before the run's savepoint."""

    spoil: Callable[[], object]
    """Is told that the caller's own writes were taken back together with the run's."""


@contextmanager
def undivided(
    connection: Connection, chunks: Iterable[Chunk], caller: Caller
) -> Iterator[Iterable[Chunk]]:
    """Give the chunks to be written under one savepoint, and take it back if anything fails.

    Two are read before the savepoint, which is a statement too. With more of them the caller's code
    runs within it, and what that writes there would be taken back without the session's knowledge:
    so the caller is told. Raises ConfigurationError where the transaction ends while they are read.
    """
    pending = read_first(connection, chunks)
    ahead = list(islice(pending, 2))
    if len(ahead) == 2:
        caller.settle()
    if connection.closed:
        raise ConfigurationError(ENDED)
    if not ahead:
        yield ()
        return
    theirs = _Writes(connection)
    try:
        with savepoint(connection) as nested:
            yield _within(nested, ahead, pending, theirs)
            if not nested.is_active:  # it was ended behind the last chunk
                raise ConfigurationError(ENDED)
    except BaseException:
        if theirs.any:
            caller.spoil()
        raise
    finally:
        theirs.forget()


def _within(
    nested: NestedTransaction, ahead: list[Chunk], pending: Iterator[Chunk], theirs: _Writes
) -> Iterator[Chunk]:
    """Yield the chunks that are read ahead and then the rest, as long as the savepoint stands."""
    while ahead:
        if not nested.is_active:
            raise ConfigurationError(ENDED)
        yield ahead.pop(0)  # what was written is kept no longer
        if not ahead:
            with theirs.heard():
                ahead.extend(islice(pending, 1))


class _Writes:
    """Whether the caller's code wrote over the connection, while it was being read from."""

    def __init__(self, connection: Connection) -> None:
        self.any = False
        self._hears = False
        self._connection = connection
        event.listen(connection, "before_cursor_execute", self._note)

    @contextmanager
    def heard(self) -> Iterator[None]:
        self._hears = True
        try:
            yield
        finally:
            self._hears = False

    def forget(self) -> None:
        event.remove(self._connection, "before_cursor_execute", self._note)

    def _note(self, _connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if self._hears and statement.lstrip()[:6].upper() != "SELECT":
            self.any = True
