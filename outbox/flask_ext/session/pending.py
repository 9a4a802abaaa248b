"""What sessions have enqueued or withdrawn and not committed, and who is told if it is lost.

The garbage collector may drop a session, at any statement of any thread. The statement may be
within a lock that a log handler needs, such as that of a queue. So what was lost then is only noted
there, and told from a place of our own: at the latest when the process ends.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakSet, ref

from sqlalchemy import Connection
from sqlalchemy.orm import SessionTransaction

from ...store.session.pending_writes import Mark

_log = logging.getLogger("outbox")

ENQUEUED, WITHDRAWN = KINDS = ("outbox", "outbox.withdrawn")
"""What is followed: the keys in the session's `info`."""

CLOSED = "the session was closed without a commit"
DROPPED = "the session was dropped, neither committed nor closed"
INTERRUPTED = "the commit was interrupted"  # so that nobody knows whether they exist
ABANDONED = (
    "the process ends, and the session was neither committed nor closed, as where an app context"
    " is pushed and not popped"
)
"""How emails are lost."""


@dataclass(kw_only=True, eq=False)
class Pending:
    """What a session's transaction holds of one kind. It belongs to the session."""

    kind: str
    discarded: Callable[[int, str], None]  # is told how they were lost, too
    emails: dict[SessionTransaction | None, int] = field(default_factory=dict)
    """How many each transaction holds: the session's own, or a savepoint that may roll back."""
    undone: dict[SessionTransaction, int] = field(default_factory=dict)
    """Likewise, what savepoints within each held that were closed, not released: that is lost."""
    wake: Callable[..., None] | None = None  # None while none of them is due at once
    outer: Outer | None = None  # the transaction that decides, where the session joined one
    is_committing: bool = False  # the session's commit was sent, and nothing is known of it yet
    is_unknown: bool = False  # likewise, and it stays so where no answer came
    thread: int | None = None  # that noted last; None once somebody has told of them
    is_inherited: bool = False  # by a fork, so that the parent answers for it

    def note(self, transaction: SessionTransaction | None, emails: int) -> None:
        self.add(transaction, emails)
        self.thread, self.is_inherited = threading.get_ident(), False
        _open.add(self)

    def add(self, transaction: SessionTransaction | None, emails: int) -> None:
        self.emails[transaction] = self.emails.get(transaction, 0) + emails

    def release(self, savepoint: SessionTransaction) -> None:
        """Give what a savepoint holds to its parent."""
        if emails := self.emails.pop(savepoint, 0):
            self.add(savepoint.parent, emails)
        if undone := self.undone.pop(savepoint, 0):
            self._undo(savepoint, undone)

    def close(self, savepoint: SessionTransaction) -> None:
        """Take for lost what a savepoint still holds at its end, unless its parent rolls back."""
        if emails := self.emails.pop(savepoint, 0) + self.undone.pop(savepoint, 0):
            self._undo(savepoint, emails)

    def _undo(self, savepoint: SessionTransaction, emails: int) -> None:
        if (parent := savepoint.parent) is not None:
            self.undone[parent] = self.undone.get(parent, 0) + emails

    def roll_back(self, transaction: SessionTransaction | None) -> None:
        """Forget what a transaction holds."""
        self.emails.pop(transaction, None)
        if transaction is not None:
            self.undone.pop(transaction, None)

    @property
    def total(self) -> int:
        return sum(self.emails.values())

    def settle(self) -> int:
        """Return how many there were; from now on there are none, because their end is known."""
        emails = self.total
        self.emails.clear()
        return emails

    def commit(self, *seconds: float) -> None:
        """Wake a sweep if there are any emails for it; raise nothing."""
        if self.settle():
            _wake(self.wake, *seconds)

    def begin_commit(self) -> None:
        """Note that the session's commit is about to be sent: an interruption may be after it."""
        self.is_committing = self.is_unknown = True

    def note_answer(self, *, is_known: bool) -> None:
        """Note an error of the commit: the database has refused it, or nobody knows.

        Later errors, as of a rollback, say nothing about the commit.
        """
        if self.is_committing:
            self.is_committing, self.is_unknown = False, not is_known

    def left(self) -> Pending:
        """Return the same without the session, which has ended."""
        left = Pending(kind=self.kind, discarded=self.discarded, wake=self.wake)
        # A transaction as the key would hold the session, which holds the connection.
        left.add(None, self.settle())
        _open.add(left)
        return left

    def lose(self, how: str) -> None:
        """Tell that nobody committed them. If that is not known, say so, and wake a sweep."""
        if emails := self.settle():
            _tell(self.discarded, emails, *self._end(how))

    def _end(self, how: str) -> tuple[str, Callable[..., None] | None]:
        return (INTERRUPTED, self.wake) if self.is_unknown else (how, None)

    def __del__(self) -> None:
        # Not `weakref.finalize`, which would not know how many there are.
        if not self.emails or self.is_inherited:
            return
        if self.outer is not None and self.outer.is_open:
            self.outer.take(self)
        elif emails := self.settle():
            _dropped.append((self.discarded, emails, *self._end(DROPPED)))


class Followed(Protocol):
    """What a session holds until the end of the transaction that it has joined."""

    @property
    def total(self) -> int: ...
    def commit(self, *seconds: float) -> None: ...
    def settle(self) -> int: ...
    def left(self) -> Followed: ...


class Outer:
    """A connection's own transactions, which sessions join, and what they leave to them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = ref(connection)  # that is the key to this object
        self._sessions: WeakSet[Followed] = WeakSet()
        self._left: list[Followed] = []
        self.mark: Mark | None = None  # sessions that end forget it, and the transaction goes on

    @property
    def connection(self) -> Connection | None:
        return self._connection()

    @property
    def is_open(self) -> bool:
        connection = self._connection()
        return connection is not None and connection.in_transaction()

    @property
    def total(self) -> int:
        return sum(pending.total for pending in (*self._sessions, *self._left))

    def follow(self, followed: Followed) -> None:
        """Follow what a session that has not ended holds."""
        self._sessions.add(followed)

    def take(self, followed: Followed) -> None:
        """Follow what a session has left that has ended."""
        self._left.append(followed.left())

    def end(self) -> list[Followed]:
        """Return all that is followed: the transaction ends."""
        ended, self._left, self.mark = [*self._sessions, *self._left], [], None
        return ended


_open: WeakSet[Pending] = WeakSet()
"""What live sessions of this process hold. A child of a fork does not answer for its parent's."""

_dropped: deque[tuple[Callable[[int, str], None], int, str, Callable[..., None] | None]] = deque()
"""What the garbage collector has dropped and nobody has been told of. It needs no lock."""


def left_by_thread(kind: str) -> int:
    """Return how many emails are in open sessions in which this thread was the last to note some.

    The caller tells of them: a session counts again once more are noted in it.
    """
    emails, thread = 0, threading.get_ident()
    for pending in _all_open():
        if pending.kind == kind and pending.thread == thread and not pending.is_unknown:
            pending.thread = None
            emails += pending.total
    return emails


def tell_of_dropped() -> None:
    """Tell of all emails in sessions that the garbage collector has dropped since the last call."""
    while _dropped:
        try:
            dropped = _dropped.popleft()
        except IndexError:  # another thread has told of it
            return
        _tell(*dropped)


def abandon() -> None:
    """Tell of all emails in sessions that are open or dropped, because the process ends."""
    tell_of_dropped()
    for pending in _all_open():
        pending.lose(ABANDONED)


def _tell(
    discarded: Callable[[int, str], None],
    emails: int,
    how: str,
    wake: Callable[..., None] | None,
) -> None:
    discarded(emails, how)
    _wake(wake)


def _wake(wake: Callable[..., None] | None, *seconds: float) -> None:
    if wake is None:
        return
    try:
        wake(*seconds)
    except Exception as error:  # noqa: BLE001  (the commit succeeded and must not raise)
        _log.warning("outbox: no sweep was asked for (%s)", type(error).__name__)


def _all_open() -> list[Pending]:
    for _ in range(10):
        try:
            return list(_open)
        except RuntimeError:  # another thread has enqueued meanwhile
            continue
    return []


def _leave_to_the_parent() -> None:
    for pending in _all_open():
        pending.is_inherited = True
    _open.clear()
    _dropped.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_to_the_parent)
