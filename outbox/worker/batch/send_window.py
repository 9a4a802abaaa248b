"""An open window: its emails over one server after the other, until each one's end is known.

Only here can an email come to be in doubt: its content leaves only after its window's opening has
committed, and the next window opens in the transaction that records this one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ...domain.delivery.blame import Traits
from ...domain.delivery.status import Status
from ...domain.delivery.transaction import Phase, Transaction, Verdict
from ...store.records import ClaimedEmail, EmailResult
from ..process.runtime import Runtime
from .batch_results import Results
from .send_message import Delivery, Outgoing
from .server_choice import ServerChoice
from .server_watch import Finding
from .throttle import Throttle

SLOW = 20.0
"""Seconds after which no email waits any longer for the one before it."""

PUT_OFF = 30.0
"""Seconds, at least, for which an email waits that was given up: it held a process long enough."""


class Window:
    """Sends the emails of one window and hands their results over."""

    def __init__(
        self,
        runtime: Runtime,
        way: ServerChoice,
        delivery: Delivery,
        pace: Throttle,
        results: Results,
        holds: Callable[[], bool],
    ) -> None:
        self._clock = runtime.clock
        self._seconds = runtime.settings.window_seconds
        self._way = way
        self._delivery = delivery
        self._pace = pace
        self._results = results
        self._holds = holds
        self._opened_at = self._clock()
        self._todo: list[Outgoing] = []  # to be given to this server
        self._aside: list[Outgoing] = []  # this server did not take them, nor judge them
        self._parked: list[Outgoing] = []  # the next server takes no more of them now
        self._done: list[Outgoing] = []  # judged for themselves
        self._current: Outgoing | None = None
        self._current_since = 0.0
        self._lock = threading.Lock()  # of `_todo`: the heartbeat's thread may empty it
        self.is_relieved = False  # what waited behind a slow email was given back
        self._left: Sequence[ClaimedEmail] = ()

    def send(
        self, mails: Sequence[ClaimedEmail], left: Sequence[ClaimedEmail], *, announces: bool
    ) -> list[ClaimedEmail]:
        """Send the emails; return those whose turn did not come before the window's time was up.

        `left` are the emails of the batch behind this window. Where it `announces`, the envelope of
        the first of them may leave before its window is open: only a content can be in doubt.
        """
        now, self._left = self._delivery.now(), left
        behind = left[0] if announces and left else None
        self._todo = [Outgoing(mail=mail, started_at=now) for mail in mails]
        tried: set[str] = set()
        late: list[Outgoing] = []
        try:
            while self._todo:
                late = self._over_this_server(behind)
                tried.add(self._way.server.name)
                if late or not self._todo or not self._holds() or not self._moves(tried):
                    break
            for out in (*self._todo, *self._parked):
                self._results.add(self._unsent(out))
        except BaseException:
            self._give_back_unsent()
            raise
        return [out.mail for out in late]

    def _over_this_server(self, behind: ClaimedEmail | None) -> list[Outgoing]:
        """Give this server what is to be sent; what it does not take stands in `_todo` again.

        Returns the emails whose turn did not come in time.
        """
        late: list[Outgoing] = []
        # An email that was judged was so under the lease, which each content asks for itself.
        finding = Finding.ASIDE
        while finding is Finding.JUDGED or self._holds():
            with self._lock:
                if not self._todo:
                    break
                now = self._clock()
                if self._done and now - self._opened_at > self._seconds:
                    late, self._todo = self._todo, []
                    break
                out = self._next(now)
            finding = self._try(out, behind)
            if finding is Finding.SERVER or finding is Finding.CLASS:
                self._leave_server(is_held=finding is Finding.CLASS)
                break
        for out in late:
            self._results.add(self._delivery.back(out, Status.CLAIMED))
        self._todo, self._aside = [*self._aside, *self._todo], []
        return late

    def relieve(self) -> list[EmailResult] | None:
        """Take out what waits behind an email that is slow; return how it is to be recorded.

        The heartbeat's thread asks, while this one waits for a server. Those emails are known to be
        unsent, and somebody else may send them now. None: no email is slow, or it was done before.
        """
        with self._lock:
            if self.slow is None or self.is_relieved:
                return None
            self.is_relieved = True
            waiting, self._todo = self._todo, []
        return [self._delivery.back(out) for out in waiting]

    @property
    def slow(self) -> ClaimedEmail | None:
        """The email for which a server has taken its time for too long; None: there is none."""
        current = self._current
        return current.mail if current is not None and self.seconds >= SLOW else None

    @property
    def seconds(self) -> float:
        """How long the email under way has taken so far."""
        return self._clock() - self._current_since

    def _next(self, now: float) -> Outgoing:
        watch = self._way.watch
        place = 0
        if watch.is_choosy:
            place = watch.pick([out.mail.traits for out in self._todo])
        out = self._current = self._todo.pop(place)
        self._current_since = now
        return out

    def _untried(self) -> list[Traits]:
        return [mail.traits for mail in (*(out.mail for out in self._todo), *self._left)]

    def _try(self, out: Outgoing, behind: ClaimedEmail | None) -> Finding:
        """Send one email and note what the server says, of it and of itself."""
        if self._delivery.has_expired(out.mail):
            self._current = None
            self._results.add(self._delivery.back(out))
            return Finding.ASIDE
        out.started_at = self._delivery.now()
        while True:
            self._current = out
            todo = self._todo  # the heartbeat's thread may put another list in its place
            following = todo[0].mail if todo else behind
            result = self._delivery.transact(out.mail, self._way.connection, following)
            self._current = None
            if result is None:
                self._results.add(self._delivery.damaged(out, self._way.server.name))
                return Finding.JUDGED
            if result.verdict is Verdict.UNSENT and not self._may_go(out):
                self._results.add(self._delivery.back(out))
                return Finding.ASIDE
            finding = self._note(out, result)
            rest = self._judged(out, result) if finding in _ITS_END else None
            if rest is None:
                return finding
            out = rest

    def _may_go(self, out: Outgoing) -> bool:
        return self._holds() and not self._delivery.has_expired(out.mail)

    def _note(self, out: Outgoing, result: Transaction) -> Finding:
        watch = self._way.watch
        finding = watch.note(out.mail, result, self._untried)
        if finding is Finding.JUDGED:
            for suspect in self._aside:
                suspect.blamed_by |= {out.mail.id}
        if finding in _ITS_END:
            return finding
        if result.verdict in _BY_ITS_OWN_COMMAND:
            out.result, out.server = result, self._way.server.name
        else:  # no session; or it is refused as every email is
            out.is_held = result.verdict is not Verdict.HALT
        if result.given_up:  # it might have been taken: that costs no life
            out.is_held, out.retry_after = True, PUT_OFF
        self._aside.append(out)
        if finding is Finding.BLAMED and watch.witness is not None:
            for suspect in self._aside:
                suspect.blamed_by |= {watch.witness}
        return finding

    def _judged(self, out: Outgoing, result: Transaction) -> Outgoing | None:
        """Note an email's own verdict; return what goes on to recipients that are left."""
        entry = self._delivery.judged(out, result, self._way.server.name)
        self._results.add(entry)
        self._done.append(out)
        if not entry.outcome.again:
            return None
        self._results.advance()  # whoever has the email gets it from nobody again
        if self._results.holds(out.mail.id):  # a person's transaction holds its row
            return None
        return self._delivery.rest(out, result, entry.outcome)

    def _leave_server(self, *, is_held: bool) -> None:
        """Give nothing more to this server: it is to blame, or the rest is like the suspects."""
        refused_alike = self._way.watch.acquitted
        gone = self._results.withdraw(refused_alike)
        acquitted = [out for out in self._done if out.mail.id in gone]
        for out in acquitted:
            out.is_held = True
        for out in self._aside:
            out.blamed_by -= refused_alike  # nor did the server judge these for themselves
            if out.result is not None and out.result.verdict is Verdict.UNSENT:
                out.is_held = True  # the server drops every email: no life is charged
        if is_held:
            for out in self._todo:
                out.is_passed_over = True
        self._aside = [*acquitted, *self._aside]
        self._way.drop()

    def _moves(self, tried: set[str]) -> bool:
        """Go on over the next server, with its permits; False where no other takes them now."""
        while self._todo and self._way.move(tried):
            mails = [out.mail for out in self._todo]
            permitted = self._pace.permit_moved(mails, self._way.buckets)
            if permitted:
                self._parked += self._todo[permitted:]
                del self._todo[permitted:]
                return True
            tried.add(self._way.server.name)
        return False

    def _unsent(self, out: Outgoing) -> EmailResult:
        """Return the entry of an email that no server took, nor judged for itself."""
        if out.is_held:
            return self._delivery.behind(out)
        if out.result is None:
            give_back = self._delivery.passed_over if out.is_passed_over else self._delivery.back
            return give_back(out)
        if not out.blamed_by and out.result.verdict is Verdict.UNSENT and _is_ahead(out.result):
            return self._delivery.behind(out)  # the server may drop whatever it is given
        if out.result.verdict is Verdict.LACKING:
            self._way.watch_of(out.server).alert_lacking(out.mail, out.result)
        return self._delivery.unsent(out, out.result)

    def _give_back_unsent(self) -> None:
        """Whatever ended the window: what provably never left is no doubt."""
        unsent = [*self._todo, *self._aside, *self._parked]
        if self._current is not None and self._delivery.touched != self._current.mail.id:
            unsent.append(self._current)
        for out in unsent:
            self._results.add(self._delivery.back(out))


def _is_ahead(result: Transaction) -> bool:
    """Whether it ended before the content: what crashes a server is a content."""
    return result.phase in (Phase.MAIL, Phase.RCPT, Phase.DATA)


_ITS_END = (Finding.JUDGED, Finding.OWN)  # no set: to hash one of them takes longer than to look

_BY_ITS_OWN_COMMAND = frozenset({Verdict.SUSPECT, Verdict.LACKING, Verdict.UNSENT})
"""Verdicts by which the email itself may be what the server objects to."""
