"""The shell's verbs for Python: what `Outbox` can do with emails that are written.

Each verb works in short transactions of its own, over connections of the outbox's engine, and they
are committed when it returns. So it sees what is committed only, and a rollback of yours takes
nothing back. Do not call it within a transaction of yours that has written: on SQLite it would wait
for that one's write lock, and fail. A SQLite database in memory has one connection: there each verb
but `health` raises ConfigurationError while a transaction of yours is open.
"""

from __future__ import annotations

from collections.abc import Iterable

from flask import Flask

from ...domain.delivery.status import Status
from ...domain.priority import Priority
from ...store.report_records import EmailDetails, EmailSummary, Stats, Suppression
from ...worker.process.runtime import Runtime
from ..app.state import state_of
from . import controls, corrections, emails, figures
from .corrections import Progress
from .results import Corrections, Health


def _unwatched(done: int, of: int) -> None:
    """Nobody watches the progress."""


class Management:
    """The verbs; `Outbox` inherits them. A wrong argument raises InvalidMessage, which names it."""

    _app: Flask | None = None

    @property
    def _runtime(self) -> Runtime:
        return state_of(self._app).runtime

    def get(self, id: int) -> EmailDetails | None:  # noqa: A002  (the public name)
        """Return a committed email with its recipients and attempts; None: there is none such."""
        return emails.get(self._runtime, id)

    def list(
        self, *, status: Status | str | None = None, tag: str | None = None, limit: int = 50
    ) -> tuple[EmailSummary, ...]:
        """Return committed emails, the newest first, of one status or tag or of all.

        The `limit` is 10,000 at most.
        """
        return emails.newest(self._runtime, status=status, tag=tag, limit=limit)

    def retry(
        self,
        ids: int | Iterable[int] | None = None,
        *,
        status: Status | str | None = None,
        progress: Progress = _unwatched,
    ) -> Corrections:
        """Send failed or unknown emails again, with fresh counters: by ids, or all of a `status`.

        Of an email in doubt a copy may have arrived, and whoever got it gets a second one; it ends
        only as sent or unknown. The result names those, and says of each email that was left why.
        All is committed when it returns, in transactions of its own of a thousand emails at most:
        if the database fails half-way, those before stay changed. It waits for no transaction of
        others: what they hold is left. For a `status`, `progress` is called with how many ids were
        gone through, and of how many.
        """
        return corrections.retry(self._runtime, ids, status, progress)

    def resolve(self, ids: int | Iterable[int], outcome: Status | str) -> Corrections:
        """Settle emails in doubt as `sent` or `failed`, as you found out.

        One of which a recipient surely has a copy ends `sent` in any case, and one with recipients
        to whom nobody has written yet is pending again: the result says what each has become.
        It is committed when it returns, and waits for nobody, as `retry`.
        """
        return corrections.resolve(self._runtime, ids, outcome)

    def suppress(self, address: str, reason: str = "by hand") -> bool:
        """Keep an address from getting email; False where it was on the list already.

        It is committed when it returns. Case does not count. Emails that are enqueued already are
        held back, too, but for those in a batch that has begun.
        """
        return controls.suppress(self._runtime, address, reason)

    def unsuppress(self, address: str) -> bool:
        """Take an address off the list; False where it was not on it.

        It is committed when it returns. What was suppressed meanwhile has ended, and is not sent.
        """
        return controls.unsuppress(self._runtime, address)

    def suppressed(self) -> tuple[Suppression, ...]:
        """Return the whole suppression list, by address."""
        return controls.suppressed(self._runtime)

    def pause(self, priority: Priority | str | int | None = None) -> bool:
        """Pause one priority, or everything; False where that was paused already.

        It is committed when it returns. What is in flight still goes out. A pause of everything is
        one of its own: it leaves those of the priorities as they are, and so does its end.
        """
        return controls.pause(self._runtime, priority)

    def resume(self, priority: Priority | str | int | None = None) -> bool:
        """End the pause of one priority, or that of everything; False where there was none.

        It is committed when it returns.
        """
        return controls.resume(self._runtime, priority)

    def stats(self) -> Stats:
        """Return how many emails there are, what waits, what is paused, and how servers stand.

        It counts rows: with millions of emails it takes a while.
        """
        return figures.stats(self._runtime)

    def health(self, max_age: float | None = None) -> Health:
        """Return whether emails leave, for a probe; it raises nothing where the database is away.

        It is bad where an email has been due, or has stood claimed, for more than `max_age` seconds
        (None: OUTBOX_HEALTH_AGE), and where a server needs a person. Emails that are late have the
        running workers asked which queues they listen to: that takes up to six seconds.
        """
        return figures.health(self._runtime, max_age)
