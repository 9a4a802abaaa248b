"""The verbs for jobs; see `management` for how verbs work."""

from __future__ import annotations

from datetime import datetime

from ...domain.delivery.status import Status
from ...domain.jobs.order import Action, JobState
from ...store.report_records import Job
from ..management.management import Management
from . import starting
from .starting import DryRun


class Jobs(Management):
    """These verbs and those of `Management`; `Outbox` inherits them."""

    def dry_run(
        self,
        action: Action | str,
        *,
        recipient: str | None = None,
        message_id: str | None = None,
        subject: str | None = None,
        key: str | None = None,
        tag: str | None = None,
        status: Status | str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        domain: str | None = None,
        server: str | None = None,
        reply: str | None = None,
        phase: str | None = None,
    ) -> DryRun:
        """Return how many emails a job with these arguments would change; it changes nothing.

        The filters are those of `list`. The `action` "retry" takes a `status` that is failed or
        unknown, and "cancel" is for emails that are not sent yet. For emails in doubt there are
        "resolve as sent" and "resolve as failed". It counts 10,000 emails at most, and looks at
        20,000.
        """
        filters = {
            "recipient": recipient, "message_id": message_id, "subject": subject, "key": key,
            "tag": tag, "status": status, "since": since, "until": until,
            "domain": domain, "server": server, "reply": reply, "phase": phase,
        }  # fmt: skip
        return starting.dry_run(self._runtime, action, filters)

    def start_job(
        self,
        action: Action | str,
        *,
        recipient: str | None = None,
        message_id: str | None = None,
        subject: str | None = None,
        key: str | None = None,
        tag: str | None = None,
        status: Status | str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        domain: str | None = None,
        server: str | None = None,
        reply: str | None = None,
        phase: str | None = None,
        upto: str | None = None,
        by: str | None = None,
    ) -> Job:
        """Start an action on all emails that fulfil these filters, as `dry_run` counts them.

        It returns at once. The sweeps of the workers do the job, in transactions of about a
        twentieth of a second, and `drain` does it, too. A process that dies loses nothing: the next
        sweep goes on. Emails that came later than the start are left as they are, or later than a
        dry run if you give its `upto`. That goes by ids: an email whose transaction was open then
        may be changed. An email that fails again is not retried again. Until the job is done, its
        row has the filters. A recipient, Message-ID, subject or key is encrypted there if contents
        are, and is removed from it with the job's end.
        """
        filters = {
            "recipient": recipient, "message_id": message_id, "subject": subject, "key": key,
            "tag": tag, "status": status, "since": since, "until": until,
            "domain": domain, "server": server, "reply": reply, "phase": phase,
        }  # fmt: skip
        return starting.start(self._writer_runtime, action, filters, upto, by)

    def stop_job(self, id: int, *, by: str | None = None) -> bool:  # noqa: A002
        """Stop a running job; return False if it was not running.

        It is committed when it returns. What is done stays done, and nothing more is done until
        `resume_job`.
        """
        return starting.stop(self._writer_runtime, id, by)

    def resume_job(self, id: int, *, by: str | None = None) -> bool:  # noqa: A002
        """Let a stopped job go on from where it stopped; return False if it was not stopped."""
        return starting.resume(self._writer_runtime, id, by)

    def job(self, id: int) -> Job | None:  # noqa: A002
        """Return a job and how far it is, or None if it is missing.

        The purge removes a job that has not run for 30 days.
        """
        return starting.job(self._runtime, id)

    def jobs(
        self, *, state: JobState | str | None = None, before: int | None = None, limit: int = 50
    ) -> tuple[Job, ...]:
        """Return the jobs, newest first: all, or those that are running, stopped or done.

        The page after this one begins `before` the id of its last job.
        """
        return starting.jobs(self._runtime, state=state, limit=limit, before=before)
