"""The verbs of `flask outbox` for Python: what `Outbox` can do with emails that are written.

Each verb works in short transactions of its own, over connections of the outbox's engine. They are
committed when it returns. So a verb sees only committed emails, and a rollback of yours does not
undo it. Without the outbox's tables each verb except `health` and `metrics` raises
ConfigurationError. On SQLite a verb that writes raises it while a session of the same thread has
written and is not committed: it would wait for that session's lock. A SQLite database in memory has
only one connection. There each verb but these two raises ConfigurationError while a transaction of
yours is open.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...domain.delivery.status import Status
from ...domain.figures.figures import Figures
from ...domain.figures.spans import Period
from ...domain.metrics.exposition import exposition
from ...domain.priority import Priority
from ...store.records import Email
from ...store.report_records import (
    AuditEntry,
    Backlog,
    EmailDetails,
    Pause,
    Progress,
    Stats,
    Suppression,
)
from . import audit, controls, corrections, emails, figures, health, metrics, source
from . import workers as fleet
from .arguments import OnProgress
from .privacy.verbs import PrivacyVerbs
from .results import Corrections, Fleet, Health, Suppressions
from .searching import Searching
from .verbs import unwatched


class Management(Searching, PrivacyVerbs):
    """The verbs; `Outbox` inherits them. A wrong argument raises InvalidMessage, which names it.

    A verb that changes emails passes over those that another transaction has locked, and tells how
    many. For any other locked row a verb that writes waits two seconds at most, and then raises
    RowsLocked. What it has committed before stays.
    """

    def get(self, id: int) -> EmailDetails | None:  # noqa: A002  (the public name)
        """Return a committed email with its recipients and attempts, or None if it is missing.

        Its `waits` says why it is not sent yet: its time, a backoff, a pause, a halted server, a
        rate, the slots, or a worker that has it.
        """
        return emails.get(self._runtime, id)

    def retry(
        self,
        ids: int | Iterable[int] | None = None,
        *,
        status: Status | str | None = None,
        progress: OnProgress = unwatched,
        by: str | None = None,
    ) -> Corrections:
        """Retry failed or unknown emails, with fresh counters: by ids, or all of a `status`.

        A copy of an email in doubt may have arrived. Its recipient then gets a second one, and the
        email ends only as sent or unknown. The result names those emails, and gives the reason for
        each email that is unchanged. One whose `expires_at` has passed is: `send_again` sends it.

        It commits transactions of at most a thousand emails each. If the database fails half-way,
        those that are committed stay changed. Emails that another transaction has locked are passed
        over, and unchanged. For a `status`, `progress` is called with how many emails
        that need a person have been gone through, and of about how many. With many emails,
        `start_job` does the same without keeping you waiting.
        """
        return corrections.retry(self._writer_runtime, ids, status, progress, by)

    def resolve(
        self, ids: int | Iterable[int], outcome: Status | str, *, by: str | None = None
    ) -> Corrections:
        """Settle emails in doubt as `sent` or `failed`, once you found out which.

        An email ends `sent` in any case if a recipient surely has a copy. It is `pending` again if
        it has recipients that were not tried yet. The result has the new status of each email. Like
        `retry` it commits, and passes over locked emails.
        """
        return corrections.resolve(self._writer_runtime, ids, outcome, by)

    def cancel_now(self, ids: int | Iterable[int], *, by: str | None = None) -> Corrections:
        """Withdraw emails that are not sent yet, in transactions of its own.

        `cancel` does so in your session's transaction. Like `retry` this one commits, passes over
        locked emails, and gives the reason for each email that is unchanged. An email in doubt ends
        `unknown`.
        """
        return corrections.cancel(self._writer_runtime, ids, by)

    def source(self, id: int) -> bytes | None:  # noqa: A002  (the public name)
        """Return the octets of a committed email as they are sent: headers, texts, attachments.

        None where it is missing, or its content is damaged, its body was removed, or the key is
        missing with which it was encrypted.
        """
        return source.source(self._runtime, id)

    def send_again(
        self,
        id: int,  # noqa: A002
        *,
        by: str | None = None,
        seen: int | None = None,
    ) -> Email:
        """Enqueue the content of an email once more, as a new message to the same recipients.

        It has a Message-ID and a Date of its own, no key and no `expires_at`, and is due now. It is
        committed when this returns. Raises InvalidMessage where the email or its content is
        missing, and for a message that is signed with DKIM.

        A form that is sent twice enqueues once if it gives `by`, and as `seen` the id of the newest
        entry of the audit that its page shows, or 0. SentAgain is raised if the audit tells that
        the email was sent again after that entry. Without `by` nothing is in the audit.
        """
        return source.send_again(self._writer_runtime, id, by, seen)

    def suppress(self, address: str, reason: str = "by hand", *, by: str | None = None) -> bool:
        """Put an address on the suppression list; return False where it was on it already.

        It is committed when it returns. Case does not count. Emails that are enqueued already are
        suppressed, too, except those in a batch that has begun.
        """
        return controls.suppress(self._writer_runtime, address, reason, by)

    def suppress_many(
        self, rows: Iterable[tuple[str, str]], *, by: str | None = None
    ) -> Suppressions:
        """Put many addresses on the suppression list: pairs of an address and a reason.

        An empty reason becomes "by hand". They are added in one transaction. A wrong address is
        left out, and the result tells its place and the rule that it breaks.
        """
        return controls.suppress_many(self._writer_runtime, rows, by)

    def unsuppress(self, address: str, *, by: str | None = None) -> bool:
        """Take an address off the suppression list; return False where it was not on it.

        It is committed when it returns. Emails that were suppressed meanwhile are not sent.
        """
        return controls.unsuppress(self._writer_runtime, address, by)

    def suppressed(
        self, *, address: str | None = None, after: str | None = None, limit: int | None = None
    ) -> tuple[Suppression, ...]:
        """Return the suppression list, by address.

        It is the whole list, or the entry of one `address`, or up to `limit` entries `after` an
        address: the last one of the page before.
        """
        return controls.suppressed(self._runtime, address=address, after=after, limit=limit)

    def pause(self, priority: Priority | str | int | None = None, *, by: str | None = None) -> bool:
        """Pause one priority, or everything; return False where that was paused already.

        It is committed when it returns. Batches in flight still go out. A pause of everything is
        separate from those of the priorities: neither its start nor its end changes them.
        """
        return controls.pause(self._writer_runtime, priority, by)

    def resume(
        self, priority: Priority | str | int | None = None, *, by: str | None = None
    ) -> bool:
        """End the pause of one priority, or that of everything; return False if there was none.

        It is committed when it returns.
        """
        return controls.resume(self._writer_runtime, priority, by)

    def paused(self) -> tuple[Pause, ...]:
        """Return what is paused, and since when."""
        return controls.paused(self._runtime)

    def audit(
        self, *, email: int | None = None, before: int | None = None, limit: int = 50
    ) -> tuple[AuditEntry, ...]:
        """Return what people did by hand, newest first: all of it, or what they did to one `email`.

        The page after this one begins `before` the id of its last entry. The dashboard and the
        commands of `flask outbox` leave entries, and so does a verb that is told who acts (`by`).
        An entry has no address and no content. It is written in the transaction of its action.
        """
        return audit.entries(self._runtime, limit=limit, before=before, email=email)

    def stats(self) -> Stats:
        """Return how many emails there are, what waits, what is paused, and how servers stand.

        It counts rows, so with millions of emails it takes a while.
        """
        return figures.stats(self._runtime)

    def backlog(self) -> Backlog:
        """Return how many emails wait and are in flight, and how long the oldest has been due.

        Each number is counted up to 10,000. So it takes milliseconds however many emails there are.
        """
        return figures.backlog(self._runtime)

    def figures(self, last: Period | str = Period.HOUR) -> Figures:
        """Return what became of the attempts of the last "hour", "day" or "week".

        It has how many were accepted, put off and refused in each minute of the hour, or in each
        hour. It also has the seconds from an email's first due time until it was accepted, and the
        failures by server and code. All of it is exact at once, and stays after the purge.
        """
        return figures.attempts(self._runtime, last)

    def metrics(self) -> str:
        """Return the metrics in Prometheus' text format; it does not raise if the database is away.

        They are read from the tables by one statement, in milliseconds however many emails there
        are. So each process tells the same, and no counter falls when a process ends. Where the
        database is away there is only `outbox_up`, which is 0.
        """
        return exposition(metrics.families(self._runtime))

    def progress(self, tag: str | None = None) -> Progress:
        """Return how far a tag's emails have come: statuses, doubt, and their batches in flight.

        Each batch has the seconds until its emails are rescued if its worker is lost. So a page can
        tell why nothing moves. It reads all emails of the tag; without a tag, all emails.
        """
        return figures.progress(self._runtime, tag)

    def workers(self) -> Fleet:
        """Return the workers and beats, living and dead, with their queues, versions and settings.

        It reads the table in which each writes itself down every ten seconds. Neither a worker nor
        the broker is asked. Workers that stopped or died are shown for a day.
        """
        return fleet.workers(self._runtime)

    def health(self, max_age: float | None = None, *, ask: bool = True) -> Health:
        """Return whether emails leave, for monitoring; it does not raise if the database is away.

        It is unhealthy in any of these cases:

        - An email has been due or claimed for more than `max_age` seconds. The default is
          OUTBOX_HEALTH_AGE.
        - No sweep has judged the emails of a dead worker for as long.
        - Beat has stopped.
        - The database takes no email now, such as with a full disk.
        - A server needs a person.
        - Emails have been due or claimed for 20 seconds, and the table of the workers says that
          nobody listens to one of their queues, or that nobody gets a task.
        - A migration was forgotten, or an encryption key is missing.
        - Nothing may be sent from here, such as from a copy.

        It stores an email and takes it back, as `check` does. Where emails are late, and that table
        does not tell why, the running workers are asked which queues they listen to. That takes up
        to six seconds; without `ask` the tables are only read. `warnings` has what else is wrong
        with workers and beat.
        """
        return health.health(self._runtime, max_age, ask=ask)
