"""Isolates emails whose rows the database refuses, so that they do not stop the others.

A trigger of the app's may raise any error for a row, so the code alone does not tell: an error is a
row's own if other rows pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import isqrt
from time import monotonic

from sqlalchemy import Connection

from ...domain.counted import counted
from ..harmless_log import harmless_log
from .endings import taken_back_on_error
from .error_codes import describe, is_lock_timeout, is_refusal, may_be_of_a_row
from .sqlite.lost_transaction import TransactionLost, begin_scratch, is_lost, known_faulty

MOST = 20
"""Emails that fail one after the other, none of them with refused data, until the database itself
is taken for what fails. But one from the other end is tried before."""

WAITED = 2.0
"""Seconds of waits for locks that end with an error. After these, and once an email is alone, no
further one is tried alone; after one more wait the rest is left untried. MariaDB and MySQL wait for
a second at least, so a number of waits would be too many there or too few on PostgreSQL."""

FEW = 25
"""So many emails or fewer are tried one by one after such a wait. So one among 500 is alone after
three waits; in halves it would be after ten."""


def each_for_itself(
    connection: Connection,
    ids: Collection[int],
    work: Callable[[frozenset[int]], object],
    what: str,
    *,
    most: float = MOST,
    blocked: set[int] | None = None,
) -> frozenset[int]:
    """Do `work` for these emails; return the ids of those whose rows the database refuses.

    If the work is refused, it is rolled back and repeated for each half of the emails, until each
    faulty email is alone. The same is done after an error that may be a row's own, unless the first
    `most` of the emails fail so. One line in the log tells that they could not be `what`:
    "expired".

    Give `blocked` where the statements do not wait long for locks. Then the work is divided after
    such a wait, too. An email whose work alone waits is put into `blocked`, and not returned.
    After such waits of WAITED seconds it soon leaves the rest untried.

    Where a row ends the whole transaction, `Database.run` repeats that without the faulty emails.
    """
    return frozenset(faulty_of(connection, ids, work, what, most=most, blocked=blocked))


def faulty_of(
    connection: Connection,
    ids: Collection[int],
    work: Callable[[frozenset[int]], object],
    what: str,
    *,
    most: float = MOST,
    blocked: set[int] | None = None,
) -> Mapping[int, Exception]:
    """Do what `each_for_itself` does; return the error of each email whose row is refused."""
    known = known_faulty(connection)
    faulty = {email_id: known[email_id] for email_id in sorted(ids) if email_id in known}
    parts = _Parts(connection, sorted(set(ids).difference(faulty)), work, most, blocked)
    parts.attempt(parts.ids)
    if parts.lost is not None:
        raise TransactionLost(parts.lost, parts.faulty) from parts.lost
    faulty |= parts.faulty
    if faulty:
        _tell(faulty, what)
    return faulty


class _Parts:
    """The halves, and the halves of these, of emails that fail together."""

    def __init__(
        self,
        connection: Connection,
        ids: Sequence[int],
        work: Callable[[frozenset[int]], object],
        most: float,
        blocked: set[int] | None,
    ) -> None:
        self.ids = ids
        self.faulty: dict[int, Exception] = {}
        self.lost: Exception | None = None  # what has ended the transaction; the rest only looks
        self._connection, self._work, self._most = connection, work, most
        self._blocked = blocked
        self._passed = set[int]()
        self._waited, self._waits_no_more = 0.0, False

    def attempt(self, some: Sequence[int]) -> None:
        """Do the work for these; find out which of them are faulty."""
        some = [email_id for email_id in some if email_id not in self._passed]
        if not some or self._is_left(some):
            return
        try:
            self._do(some)
        except Exception as error:
            if not self._may_be_divided(error):
                raise
            if len(some) == 1:
                self._note(some[0], error)
                return
            for part in _divided(some, error):
                self.attempt(part)

    def _is_left(self, some: Sequence[int]) -> bool:
        return self._waits_no_more or (len(some) == 1 and self._has_waited())

    def _has_waited(self) -> bool:
        return self._waited >= WAITED and bool(self._blocked)

    def _do(self, some: Collection[int]) -> None:
        began = monotonic()
        try:
            _in_savepoint(self._connection, partial(self._work, frozenset(some)))
        except Exception as error:
            if may_be_of_a_row(error) and is_lost(self._connection):
                self.lost = self.lost or error
                begin_scratch(self._connection)
            if is_lock_timeout(error):
                self._waits_no_more = self._has_waited()
                self._waited += monotonic() - began
            raise
        self._passed.update(some)

    def _may_be_divided(self, error: Exception) -> bool:
        if self._blocked is not None and is_lock_timeout(error):
            return True
        return may_be_of_a_row(error) and (is_refusal(error) or self._may_go_on())

    def _note(self, email_id: int, error: Exception) -> None:
        if self._blocked is not None and is_lock_timeout(error):
            self._blocked.add(email_id)
        else:
            self.faulty[email_id] = error

    def _may_go_on(self) -> bool:
        """Return whether others may pass. After many failures it tries the last one to know it."""
        if self._passed or len(self.faulty) < self._most:
            return True
        try:
            self._do(self.ids[-1:])
        except Exception as error:
            if not may_be_of_a_row(error):
                raise
        return bool(self._passed)


def _divided(some: Sequence[int], error: Exception) -> list[Sequence[int]]:
    """Return the halves; after a wait for a lock many parts, because each wait takes time."""
    if not is_lock_timeout(error):
        half = len(some) // 2
        return [some[:half], some[half:]]
    size = isqrt(len(some)) if len(some) > FEW else 1
    return [some[at : at + size] for at in range(0, len(some), size)]


def _in_savepoint(connection: Connection, work: Callable[[], object]) -> None:
    """Run `work` in a savepoint, and roll that back after an error.

    A deadlock on MariaDB rolls back the whole transaction, and so may a trigger on SQLite. There is
    no savepoint then. The error that says so must not hide the one that has ended the transaction:
    the rest would go on without what was done before. But it must hide a lock's time-out, which
    rolls back as much only if the server is set so.
    """
    met: list[Exception] = []
    try:
        with taken_back_on_error(connection), connection.begin_nested():
            try:
                work()
            except Exception as error:
                met.append(error)
                raise
    except Exception as error:
        is_of_a_part = met and (may_be_of_a_row(met[0]) or is_lock_timeout(met[0]))
        if met and met[0] is not error and (is_lost(connection) or not is_of_a_part):
            raise met[0] from error
        raise


def _tell(faulty: Mapping[int, Exception], what: str) -> None:
    first, error = next(iter(faulty.items()))
    text = "outbox: %s could not be %s, email %d first: the database refuses that (%s)"
    harmless_log.error(text, counted(len(faulty), "email"), what, first, describe(error))
