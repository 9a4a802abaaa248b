"""Keeps the results of finished batches while a person's transaction holds the emails' rows.

A worker waits for no such transaction, and a known result must not become unknown. So the result is
kept here, and written as soon as that transaction has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic
from uuid import UUID

from ...domain.counted import counted
from ...domain.delivery.transaction import NOBODY
from ...store.connection.database import Database
from ...store.connection.error_codes import describe, is_refusal, may_be_of_a_row
from ...store.control.lease import put_off_rescue
from ...store.harmless_log import harmless_log
from ...store.records import EmailResult, WriteResult
from ...store.transitions.window import abandon, finish, record_last
from ..together.seldom import Seldom
from . import shutdown
from .kept_threads import KeptThreads
from .one_by_one import unwritten, write_each
from .retry_writes import GRACE, TOLD_EVERY, until_written

FIRST_WAIT = 0.05
LONGEST_WAIT = 0.5
"""Seconds between two tries. Each try shows the rescue that the results are known: the rescue waits
a whole lease after the last one."""

FAILING_WAIT = 5.0
"""The same where the rows alone fail, but at most a third of the lease. Such a result is kept until
it is written, or until another claim has its email. Each try puts the rescue off."""


@dataclass(eq=False, slots=True)
class _Kept:
    """What one batch has left."""

    results: list[EmailResult]
    is_told: bool = False  # the database has answered the last try: rows keep it from being written


class Unrecorded:
    """The unrecorded results of this process. It may send other batches meanwhile."""

    def __init__(
        self,
        database: Callable[[], Database],
        worker: Callable[[], str],
        *,
        term: Callable[[], float] = lambda: inf,
    ) -> None:
        """`term` returns the seconds of a lease."""
        self._database = database
        self._worker = worker
        self._term = term
        self._threads = KeptThreads("outbox-unrecorded")
        self._kept = set[_Kept]()
        self._told = Seldom(monotonic)  # of an error, to the log

    def keep(self, token: UUID, results: Sequence[EmailResult], *, gives_back: bool = True) -> None:
        """Write a finished batch's results, and give back its rest, once the rows are free.

        Without `gives_back` the rest is left alone, because an error has ended the batch. A thread
        does it. Where there can be no more threads, the caller waits for the rows of the results,
        and a lease that is locked runs out.
        """
        if not results:
            return
        wait = counted(len(results), "result waits", "results wait")
        harmless_log.info(
            "outbox: %s to be recorded by a thread: a row is locked, the database is away, or the "
            "task has no time",
            wait,
        )
        kept = _Kept(list(results))
        self._kept.add(kept)
        write = partial(self._keep, token, kept, gives_back=gives_back)
        if not self._threads.start(write):
            write(is_awaited=True)

    def give_back(self, token: UUID) -> bool:
        """Give back what waits for a window, once the database is back: an error ended the batch.

        A thread does it. Returns False where there can be no more threads.
        """
        kept = _Kept([])
        self._kept.add(kept)
        is_started = self._threads.start(partial(self._give_back, token, kept))
        if not is_started:
            self._kept.discard(kept)
        return is_started

    def wait(self, seconds: float = GRACE) -> bool:
        """Wait so long for all writes before the process ends; return whether all are done.

        A result that is not written by then becomes unknown.
        """
        return self._threads.wait(seconds)

    @property
    def is_away(self) -> bool:
        """Whether the database, and no row, keeps a result from being written, as far as known."""
        return not all(kept.is_told for kept in self._kept.copy())

    @property
    def count(self) -> int:
        """How many results wait to be written, also those of emails that were not sent."""
        return sum(len(kept.results) for kept in self._kept.copy())

    def lost_line(self, late: int) -> str:
        """Return what is lost if the process ends now; so many `late` replies are, too.

        An email that was not sent is told apart: it comes into doubt only if its window is open.
        """
        kept = [entry for one in self._kept.copy() for entry in one.results.copy()]
        unsent = sum(entry.verdict in NOBODY for entry in kept)
        results, parts = len(kept) - unsent + late, list[str]()
        if results:
            parts.append(f"{counted(results, 'result is', 'results are')} not recorded")
        if unsent:
            told = counted(unsent, "unsent email is", "unsent emails are")
            parts.append(f"{told} not given back")
        return ", and ".join(parts) or "the end of a batch is not recorded"

    def _give_back(self, token: UUID, kept: _Kept) -> None:
        def write() -> None:
            kept.is_told = False
            try:
                abandon(self._database(), token)
            except Exception as error:
                kept.is_told = may_be_of_a_row(error)
                raise

        try:
            with suppress(Exception):  # a refusal: the rescue isolates the email that causes it
                until_written(write)
        finally:
            self._kept.discard(kept)

    def _keep(
        self, token: UUID, kept: _Kept, *, gives_back: bool, is_awaited: bool = False
    ) -> None:
        try:
            self._write(token, kept, gives_back=gives_back, is_awaited=is_awaited)
        finally:
            self._kept.discard(kept)

    def _write(self, token: UUID, kept: _Kept, *, gives_back: bool, is_awaited: bool) -> None:
        pause, wait = threading.Event(), FIRST_WAIT
        goes_on = _until_the_grace_is_over() if is_awaited else lambda: True
        end = finish if gives_back else record_last
        refused: dict[int, Exception] = {}
        while goes_on():
            pause.wait(wait)
            wait = min(LONGEST_WAIT, wait * 2)
            results, kept.is_told = kept.results, False
            try:
                done = end(self._database(), token, results, worker=self._worker())
            except Exception as error:  # noqa: BLE001  (the results are known: try again)
                kept.is_told = may_be_of_a_row(error)
                self._tell(error)
                if not results and is_refusal(error):
                    return  # what is left of the batch was not sent: the rescue gives it back
                is_slow = not results and may_be_of_a_row(error)  # an outage may look so, too
                failed = self._write_each(token, results, refused, gives_back=gives_back)
                if is_slow or 0 < len(failed) == len(results):
                    wait = min(FAILING_WAIT, self._term() / 3)
                if refused and gives_back:  # these emails are not known to be unsent
                    end = _give_back_the_claimed
            else:
                kept.results = unwritten(results, done)
                kept.is_told = True
                if not done.locked and (is_awaited or not done.left):
                    return

    def _write_each(
        self,
        token: UUID,
        results: list[EmailResult],
        refused: dict[int, Exception],
        *,
        gives_back: bool,
    ) -> Collection[int]:
        """Write each result alone, and end no lease before; leave in `results` what is left.

        Returns the emails whose rows alone fail. The rest of the batch does not wait for them.
        """
        failed: Collection[int] = ()
        try:
            database = self._database()
            failed = write_each(
                results, partial(record_last, database, token, worker=self._worker()), refused
            )
            if failed:  # a known result must not become unknown while this process has it
                database.run(partial(put_off_rescue, database=database, token=token))
            if failed and gives_back:
                abandon(database, token)
        except Exception as error:  # noqa: BLE001  (tried again)
            self._tell(error)
        return failed

    def _tell(self, error: Exception) -> None:
        """Log why results wait: once a minute for all batches, as each tries again in a moment."""
        if self._told.is_due(what := describe(error), TOLD_EVERY):
            harmless_log.warning("outbox: results are not recorded yet (%s)", what)


def _give_back_the_claimed(
    database: Database, token: UUID, results: Sequence[EmailResult], *, worker: str
) -> WriteResult:
    done = record_last(database, token, results, worker=worker)
    abandon(database, token)
    return done


def _until_the_grace_is_over() -> Callable[[], bool]:
    """Return a function that says whether to go on, until `GRACE` seconds after a shutdown."""
    stop_at = inf

    def goes_on() -> bool:
        nonlocal stop_at
        if shutdown.requested():
            stop_at = min(stop_at, monotonic() + GRACE)
        return monotonic() < stop_at

    return goes_on
