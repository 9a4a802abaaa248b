"""Keeps the results of one batch until they are in the table; none is dropped before that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from uuid import UUID

from ...domain.delivery.status import Status
from ...store.connection.error_codes import is_refusal, may_be_of_a_row
from ...store.harmless_log import harmless_log
from ...store.records import EmailResult, WriteResult
from ...store.transitions.window import advance
from ..process.one_by_one import Write, open_each, tell, unwritten, write_each
from ..process.retry_writes import until_written
from ..process.runtime import Runtime


class Results:
    """The results of a batch's emails that are known, and not yet in the table."""

    def __init__(
        self,
        runtime: Runtime,
        token: UUID,
        *,
        progress: Callable[[], object],
        is_told: Callable[[], bool],
    ) -> None:
        """`progress` and `is_told` are as in `carried_by`."""
        database = runtime.database
        self._advance = partial(advance, database, token, worker=runtime.worker)
        self._together = runtime.recorder.write if database.is_shared else None
        self._clock, self._term = runtime.clock, runtime.settings.lease
        self.carried_by(progress=progress, is_told=is_told)
        self._waiting: list[EmailResult] = []
        self._aside: list[EmailResult] = []  # their rows alone fail: not to be tried again here
        self._is_locked = False  # another transaction had locked a row of the last window
        self.on_result: Callable[[EmailResult, int], None] | None = None
        self.after_record: list[Callable[[], object]] = []  # what is called after the next record
        self._unsure = set[int]()  # a copy of their `claimed` may come late: `may_open_again`
        self.settled = 0  # emails whose result is in the table, or waits for it
        self.sent = 0  # those of them that the server has accepted
        self.table_fails = False  # no email of a window opens, and none is to blame
        self.refused: dict[int, Exception] = {}  # by the email whose row can take no result

    def carried_by(self, *, progress: Callable[[], object], is_told: Callable[[], bool]) -> None:
        """Have another heartbeat from now on: a batch's own ends with it.

        `progress` is called while a write waits for the database: the batch is still alive.
        `is_told` returns whether the database tells of the lease, as it does while it is well.
        """
        self._progress, self._is_told = progress, is_told

    def add(self, entry: EmailResult) -> None:
        """Note a result, to be written with the next `advance`."""
        self._waiting.append(entry)
        self.settled += _settles(entry)
        self.sent += entry.outcome.status is Status.SENT
        if self.on_result is not None:
            self.on_result(entry, 1)

    def withdraw(self, ids: Collection[int]) -> frozenset[int]:
        """Take back the unwritten results of these emails; return the ids of those that had one."""
        gone = [entry for entry in self._waiting if entry.email_id in ids]
        self._waiting = [entry for entry in self._waiting if entry.email_id not in ids]
        self.settled -= sum(map(_settles, gone))
        self.sent -= sum(entry.outcome.status is Status.SENT for entry in gone)
        if self.on_result is not None:
            for entry in gone:
                self.on_result(entry, -1)
        return frozenset(entry.email_id for entry in gone)

    @property
    def waiting(self) -> Sequence[EmailResult]:
        """The results that are not written yet."""
        return self._waiting

    def take(self) -> Sequence[EmailResult]:
        """Return the results that are not written yet, which the caller is to have written."""
        waiting, self._waiting, self._aside = [*self._waiting, *self._aside], [], []
        return waiting

    def has_unwritten(self, email_id: int) -> bool:
        """Return whether a result of this email is not written yet."""
        return any(entry.email_id == email_id for entry in self._waiting)

    def may_open_again(self, email_id: int) -> bool:
        """Return whether an email may go in a later window of this batch, as its own closed.

        It may not if its result was written more than once. A server that stalls may still run the
        first copy, which would find the email in its next window, and take it for unsent. With the
        end of the batch it is another claim's, which no copy matches.
        """
        return email_id not in self._unsure and not self.has_unwritten(email_id)

    def record(self) -> None:
        """Record the known results. They are kept until they are written."""
        self.record_and_open(())

    def record_part(self, rest: EmailResult, whole: EmailResult) -> bool:
        """Record the known results before the rest of an email goes; return whether it may go.

        So a recipient who has the email never gets it again. The rest may not go where another
        transaction has locked the row. After an error nothing of it has left: the `rest` is given
        back, or else the `whole` of it is to be recorded, because its part is not.
        """
        try:
            self.record()
        except BaseException:
            if rest.email_id not in self.refused:  # else who has it is not in the table
                self.add(whole if self.withdraw({rest.email_id}) else rest)
            raise
        return not self.has_unwritten(rest.email_id)

    def record_and_open(self, following: Sequence[int]) -> frozenset[int]:
        """Record the known results and open the next window in one transaction.

        Returns the ids of the emails that were opened. Only these may be sent. Raises the error of
        a result that the database refuses, so that its email is not given back as unsent; or of one
        whose row alone fails, which is kept. All others are recorded then, and no window is opened.
        """
        opened = self._record(following)
        while self.after_record:
            self.after_record.pop()()
        if self.refused:
            raise next(iter(self.refused.values()))
        return opened

    def _record(self, following: Sequence[int]) -> frozenset[int]:
        following = () if self.refused else following
        try:
            # With others only if no row of its own is known to hold them up.
            done = self._write(self._waiting, following, alone=self._is_locked)
        except Exception as error:
            if not may_be_of_a_row(error):
                raise
            one = partial(self._write, alone=True)
            self._record_each(partial(one, following=()))
            following = () if self.refused else following
            return self._open_each(following, partial(one, ()))
        self._keep(done)
        return done.opened

    def _open_each(
        self, following: Sequence[int], open_: Callable[[Sequence[int]], WriteResult]
    ) -> frozenset[int]:
        """Open a window's emails one by one. One whose row alone fails is not opened.

        The end of the batch gives it back. If no email passes, the error is raised. An email that
        is alone, or refused, is to blame: its lease runs out, and the rescue charges a crash. Where
        several fail with other errors, it is the table.
        """
        began = self._clock()

        def attempt() -> frozenset[int]:
            opened, failed = open_each(following, open_, progress=self._progress)
            if failed and not opened:
                self.table_fails = len(following) > 1 and not any(map(is_refusal, failed))
                raise failed[0]
            self.table_fails = False
            return opened

        def ends(error: BaseException) -> bool:
            return is_refusal(error) or (may_be_of_a_row(error) and self._is_lasting(began))

        return until_written(attempt, meanwhile=self._progress, ends=ends)

    def record_once(self) -> None:
        """Try only once to record the known results: a server's reply may come meanwhile."""
        try:
            self._keep(self._advance(self._waiting, ()))
        except Exception as error:
            if not may_be_of_a_row(error):
                raise
            write_each(self._waiting, partial(self._advance, following=()), self.refused)
            self._is_locked = bool(self._waiting)

    def _record_each(self, write: Write) -> None:
        """Record the results one by one; set those aside whose rows alone fail.

        An error may be a row's own if the code does not tell of an outage. It is, if the result of
        another is written, or if the database tells of the lease long after the row first failed.
        """
        harmless_log.warning("outbox: results were refused and are recorded again one by one")
        began = self._clock()

        def attempt() -> None:
            before = len(self._waiting) + len(self.refused)
            failed = write_each(self._waiting, write, self.refused, progress=self._progress)
            passed = before > len(self._waiting) + len(self.refused)
            if failed and not (passed or self._is_lasting(began)):
                raise next(iter(failed.values()))
            self._set_aside(failed)

        until_written(attempt, meanwhile=self._progress)
        self._is_locked = bool(self._waiting)

    def _is_lasting(self, began: float) -> bool:
        """Return whether the database has told of the lease meanwhile, long after this moment."""
        return self._clock() - began > self._term and self._is_told()

    def _set_aside(self, failed: Mapping[int, Exception]) -> None:
        for entry in self._waiting:
            if entry.email_id in failed:
                tell(entry, "its row alone fails, and the result is kept", failed[entry.email_id])
        self._aside += [entry for entry in self._waiting if entry.email_id in failed]
        self._waiting = [entry for entry in self._waiting if entry.email_id not in failed]
        self.refused |= failed

    def _keep(self, done: WriteResult) -> None:
        """Record the results with the next window that could not be written with this one.

        Another transaction has locked their rows, or they were not found.
        """
        self._waiting = unwritten(self._waiting, done)
        self._is_locked = bool(self._waiting)

    def _write(
        self,
        results: Sequence[EmailResult],
        following: Sequence[int],
        *,
        alone: bool,
    ) -> WriteResult:
        first = [] if alone else [self._together]

        def write() -> WriteResult:
            # What has failed once is repeated alone, and cannot harm other tasks' results.
            together = first.pop() if first else None
            try:
                return self._advance(results, following, together=together)
            except BaseException:
                closed = (e.email_id for e in results if e.outcome.status is Status.CLAIMED)
                self._unsure.update(closed)
                raise

        return until_written(write, meanwhile=self._progress, ends=may_be_of_a_row)


def _settles(entry: EmailResult) -> bool:
    """Return whether nothing more is to be done for this email in its batch."""
    return not entry.outcome.again and entry.outcome.status is not Status.CLAIMED
