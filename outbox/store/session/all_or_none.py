"""Writes many emails in one transaction, which the iterable that yields them must not end."""

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
    "enqueue_many writes all emails or none, but what it reads has ended its session's transaction"
    " (commit, rollback or close). Read it into a list first, or read it over another session"
)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """What an enqueue of many emails needs from the caller's session."""

    settle: Callable[[], object]
    """Flushes the session. It is called before the savepoint of the emails."""

    spoil: Callable[[], object]
    """Is called if the caller's own writes were rolled back together with the emails."""


@contextmanager
def undivided(
    connection: Connection, chunks: Iterable[Chunk], caller: Caller
) -> Iterator[Iterable[Chunk]]:
    """Give the chunks to be written under one savepoint, and roll it back if anything fails.

    Two chunks are read before the savepoint, which costs a statement too. Further chunks are read
    within it, by the caller's code. If that code writes, a rollback takes its writes back without
    the session's knowledge, so `caller.spoil` is called. Raises ConfigurationError if the
    transaction ends while chunks are read.
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
            if not nested.is_active:  # it was ended after the last chunk
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
    """Yield the chunks read ahead, then the rest. Raise if the savepoint is no longer active."""
    while ahead:
        if not nested.is_active:
            raise ConfigurationError(ENDED)
        yield ahead.pop(0)  # drop each written chunk from memory
        if not ahead:
            with theirs.heard():
                ahead.extend(islice(pending, 1))


class _Writes:
    """Notes whether the caller's code wrote over the connection while chunks were read."""

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
