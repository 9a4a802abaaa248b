"""The verbs that find emails, and that index them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from ...domain.delivery.status import Status
from ...store.report_records import EmailPage, Problems
from ...store.search.problems import MOST_LOOKED_AT
from . import emails
from .arguments import OnProgress
from .verbs import Verbs, unwatched


class Searching(Verbs):
    """The verbs that find emails; `Management` inherits them."""

    def list(
        self,
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
        after: str | None = None,
        limit: int = 50,
    ) -> EmailPage:
        """Return a page of committed emails that fulfil all these filters, newest first.

        `recipient` is a whole address, and `subject` the beginning of a subject; case does not
        count for either. `since` and `until` are about the time of creation. Failed or unknown
        emails come in the order in which they came to need a person, the last first, unless a
        recipient, key or Message-ID is given. A cancelled, expired or suppressed email is in no
        index, so that one of these statuses needs another filter beside it.

        `domain` is that of the first recipient. `server`, `reply` and `phase` are those of the last
        attempt: a server's name, the codes as text ("550 5.1.1"), and a step such as "rcpt"; all as
        `problems` has them, and "(none)" where it has nothing. These four need the status failed or
        unknown beside them.

        A page looks at 5,000 emails at most, however many there are; for these four at 2,000. Its
        `next` is the `after` of the next page. The `limit` is at most 1,000.
        """
        return emails.found(
            self._runtime,
            recipient=recipient,
            message_id=message_id,
            subject=subject,
            key=key,
            tag=tag,
            status=status,
            since=since,
            until=until,
            domain=domain,
            server=server,
            reply=reply,
            phase=phase,
            after=after,
            limit=limit,
        )

    def problems(self, *, limit: int = 50, newest: int = MOST_LOOKED_AT) -> Problems:
        """Return what needs a person: failed and unknown emails, grouped by what went wrong.

        A group has the same reply code, server and recipient's domain, and the newest reply's text.
        The `newest` emails that came to need a person last are looked at, at most 10,000. The
        `limit` of groups is at most 1,000. `contents` are the servers that refuse many just now.
        """
        found, look = emails.problems(self._runtime, limit, newest), emails.contents_refused
        contents = self._runtime.database.read(partial(look, runtime=self._runtime))
        return replace(found, contents=contents)

    def index(self, *, progress: OnProgress = unwatched) -> int:
        """Index emails that were written before they could be found; return how many were locked.

        That is after an upgrade, or after `OUTBOX_SEARCH` has got longer. It commits transactions
        of at most 500 emails each, and takes nothing out of the index. Emails that another
        transaction has locked are left out: call it again.
        """
        return emails.index(self._writer_runtime, progress)
