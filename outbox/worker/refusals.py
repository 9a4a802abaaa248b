"""A batch's eye on its server: is it a mail that is refused, or does it refuse everybody?"""

from __future__ import annotations

from functools import partial

from ..domain.refusals import Streak
from ..domain.servers import ServerSettings
from ..domain.verdict import Transaction
from ..store import breaker
from ..store.refused import review
from ..store.rows import Waiting
from .persistence import outlast
from .runtime import Runtime


class Refusals:
    """Watches the results of one batch on one server. `halted`: a breaker stood open at its start.

    A server that refuses every mail alike gets its breaker opened, with an alert and the longest
    pause, and none of the mails is charged.
    """

    def __init__(self, runtime: Runtime, server: ServerSettings, *, halted: bool) -> None:
        self._database = runtime.database
        self._server = server.name
        self._needed = runtime.settings.refused_alike
        # A probe that is refused as those before it were is one more of them, and not a mail's end.
        look = partial(breaker.refusal, self._database, self._server)
        known = outlast(look) if halted else None
        self._streak = Streak(self._needed, known=known)
        self._tripped = False

    def note(self, mail: Waiting, result: Transaction) -> frozenset[int]:
        """Note a mail's result; where the server is at fault, return the mails of the streak.

        The breaker is open then: send nothing more over this server, and of the mails returned give
        back, uncharged, each whose result is not recorded yet.
        """
        alike = self._streak.add(mail.id, result, content=mail.content_id)
        if alike is None:
            return frozenset()
        if not self._tripped:
            self._tripped = True
            trip = partial(breaker.trip, self._database, self._server, reason=alike.reason)
            outlast(partial(trip, alert=True, refusal=alike.refusal))
        return alike.mails

    def settle(self) -> None:
        """Take back, from the log, what was charged before it was known: after the last record.

        Also where this batch saw too few by itself, and the log has the others.
        """
        refusal = self._streak.refusal
        if refusal is not None:
            needed = self._needed
            outlast(lambda: review(self._database, self._server, refusal, needed=needed))
