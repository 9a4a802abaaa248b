"""The verbs for a restored backup and a moved database; see `management` for how verbs work."""

from __future__ import annotations

from collections.abc import Iterable

from ...domain.priority import Priority
from ...store.instance.hold import HeldEmails
from ..management.arguments import OnProgress
from ..management.management import Management
from ..management.verbs import unwatched
from . import holding
from .holding import Released, Restored


class Restoring(Management):
    """These verbs and those of `Management`; `Outbox` inherits them."""

    def restored(self, *, progress: OnProgress = unwatched, by: str | None = None) -> Restored:
        """Hold every email that waits, and let this outbox send: after a restore, or in a copy.

        Nothing is sent before it ends. What waits at its beginning is held until `release`, and new
        emails go out. An email that was `sending` came into doubt, by its own policy. The workers,
        beat and the state of the servers are forgotten, since they are the original's. Jobs that
        were running are stopped, until `resume_job`. Emails that another transaction holds are
        counted as `locked`: then nothing is sent until it is called again. Stop the workers before.
        """
        return holding.restored(self._writer_runtime, progress, by)

    def moved(self, *, by: str | None = None) -> None:
        """Let this outbox send from a new place or under a new name, and hold nothing.

        It is for the original only: after a move to another server, an upgrade of the database, or
        a change of OUTBOX_INSTANCE. A copy would send what the original sends. Raises
        ConfigurationError while a `restored` has not ended: call that again.
        """
        holding.moved(self._writer_runtime, by)

    def held(self) -> tuple[HeldEmails, ...]:
        """Return how many emails are held since a restore, by tag and priority."""
        return holding.held(self._runtime)

    def release(
        self,
        ids: int | Iterable[int] | None = None,
        *,
        tag: str | None = None,
        priority: Priority | str | int | None = None,
        scheduled: bool = False,
        everything: bool = False,
        progress: OnProgress = unwatched,
        by: str | None = None,
    ) -> Released:
        """Release held emails: by ids, by tag, priority or both, or everything.

        With `scheduled` only those whose `send_at` is yet to come: nobody has sent them. A released
        email is due when it first was, so most are sent at once. Like `retry` it commits
        transactions of at most a thousand emails, and passes over locked ones.
        """
        return holding.release(
            self._writer_runtime,
            ids,
            tag=tag,
            priority=priority,
            scheduled=scheduled,
            everything=everything,
            progress=progress,
            by=by,
        )
