"""Watches one server during a batch: is one email at fault, or does the server take none?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from ....domain.delivery.blame import SILENCES, Suspicion, Traits, patience
from ....domain.delivery.breaker_timing import OPEN_FIRST, Cause, probe_seconds, session_seconds
from ....domain.delivery.reach import WITNESS
from ....domain.delivery.transaction import Phase, Reply, Transaction, Verdict
from ....store.control.blame.comparison import JUST_NOW
from ....store.records import Breaker, ClaimedEmail
from ...log_events import log_crowded, log_unreached
from ...process.runtime import Runtime
from .diagnosis import ASIDE, CLASS, DOUBTS, JUDGED, OWN, SERVER, Diagnosis, Kind
from .lacking import Lacking
from .other_emails import OtherEmails
from .refused_alike import RefusedAlike
from .server_breaker import ServerBreaker, told, why

Untried = Callable[[], Sequence[Traits]]
"""Returns the traits of the emails that this server is still to get. Called in trouble only."""


_NO_REPLY_YET = Transaction(
    verdict=Verdict.UNKNOWN, phase=Phase.DOT, reply=Reply(code=0, text="no reply yet")
)
"""Stands for the transaction of an email whose content got no reply for a long time."""

_TELLS_NOTHING = frozenset({Verdict.SUSPECT, Verdict.UNSENT})
"""Verdicts of an email's own that say nothing of the server: it hung up on refused recipients."""


class Watch:
    """Draws a conclusion from each result of one batch on one server.

    Emails that were halted one by one are a `Suspicion`, and emails that were refused alike are
    `RefusedAlike`. Where the server is to blame, the watch opens its breaker.
    """

    def __init__(
        self,
        runtime: Runtime,
        server: str,
        *,
        breaker: Breaker | None,
        suspect: Traits | None,
        lanes: Callable[[], Iterable[str]],
    ) -> None:
        """`breaker` is the row at the batch's start; `suspect` is the last email that was halted.

        `lanes` returns the lanes that may hold emails for this server. It is called in trouble
        only.
        """
        self._server = server
        self._worker = runtime.worker
        self._reach = runtime.reach
        self._slots = runtime.slots
        self._has_sessions = runtime.connections.has_sessions
        self._random = runtime.random
        self._breaker = ServerBreaker(runtime, server, breaker)
        self._others = OtherEmails(runtime, server, lanes)
        self._lacking = Lacking(self._breaker, runtime.settings, suspect)
        self._suspicion = _earlier_suspicion(breaker, suspect)
        self._alike = RefusedAlike(
            self._breaker, self._others, runtime.settings, runtime.clock, runtime.random
        )
        self._last: tuple[int, str] | None = None  # the last suspect and the server's reply
        self._is_silent = False  # the server gives no reply to any email
        self._silent_since: datetime | None = None
        self._doubts = 0  # emails of this batch in a row that are in doubt
        self._judged = False  # the server took or judged an email, or opened a probe's session
        # Nearly always True: nothing speaks against the server, and a sent email needs no thought.
        self._is_calm = breaker is None

    @property
    def is_choosy(self) -> bool:
        """Whether it matters which email is tried next."""
        return not self._is_calm and (bool(self._suspicion) or self._alike.is_choosy)

    def pick(self, untried: Sequence[Traits]) -> int:
        """Return the place of the email to try next: under suspicion the one that differs most."""
        if self._suspicion:
            return self._suspicion.pick(untried, self._random)
        return self._alike.pick(untried)

    def order(self, untried: Sequence[Traits]) -> list[int]:
        """Return the emails' places in the order to try them: those that may be slow come last."""
        return self._suspicion.order(untried, self._random)

    def note(self, email: ClaimedEmail, result: Transaction, untried: Untried) -> Diagnosis:
        """Note the result of an email on this server; `untried` returns the traits of the rest."""
        if self._is_calm and result.verdict is Verdict.SENT:
            self._judged = True
            self._alike.note_taken(email.content_id)
            return JUDGED
        self._is_calm = False
        match result.verdict:
            case Verdict.HALT:
                self.session_failed(result)
                return SERVER
            case Verdict.SUSPECT | Verdict.UNSENT if not result.refused_early(email.doubtful):
                return self._suspect(email, result, untried)
            case Verdict.LACKING:
                self._lacking.note(email, result)
                return ASIDE
        # Any other verdict is on the email itself, but the server may be to blame all the same.
        self._lacking.note_other()
        if result.took_too_long:
            return SERVER if self._suspect(email, result, untried) is SERVER else OWN
        if (found := self._alike.note(email, result, untried)) is not None:
            return found
        if result.verdict is Verdict.UNKNOWN:
            return self._doubt(email, result)
        if result.verdict in _TELLS_NOTHING:
            return OWN
        self._clear()
        if result.verdict is Verdict.SENT:
            self._lacking.note_taken(email, result)
        return JUDGED

    def note_slow(self, email: ClaimedEmail) -> None:
        """Note that this email got no reply for a long time, so that emails like it come last."""
        self._suspicion.note_slow(email.traits)
        self._is_calm = False
        row = self._breaker.keep_silence(email.id)
        if row is not None and row.failures >= max(SILENCES, self._slots() + 1):
            self._silent_since = row.opened_at
            self._is_silent = not self._others.were_taken_since(row.opened_at)

    def note_unanswered(self, email: ClaimedEmail) -> None:
        """Note that this email's content got no reply so far, and that a thread waits for it.

        A server that is silent to all then gets no more contents. A probe keeps the breaker open.
        Each such probe puts the next one off for longer. Those that got a reply do not count there.
        """
        if self._is_silent and self._silent_since is not None:  # it may have taken others since
            self._is_silent = not self._others.were_taken_since(self._silent_since)
        if self._is_silent or self._breaker.was_open:
            self._breaker.trip(Cause.EMAILS, _NO_REPLY_YET, suspect_id=email.id, anew=True)

    def gives_up(self, email: ClaimedEmail, seconds: float) -> bool:
        """Return whether to give up an email that has had no reply for so many seconds.

        It is given up only while other emails are due, for any server, and no process has claimed
        them. A probe gets more time from those that only its server takes, the more probes have
        failed before it: none of them can go while the breaker is open.
        """
        least = patience(email.waited, self._others.slowest_seconds())
        if seconds >= least and self._others.are_left():
            return True
        if self._breaker.failures:
            least = max(least, probe_seconds(self._breaker.failures))
        return seconds >= least and self._others.wait()

    def keeps_others(self) -> bool:
        """Return whether this is a probe, and emails wait for its server to be well again."""
        return self._breaker.was_open and self._others.wait()

    @property
    def session_seconds(self) -> float:
        """How many seconds to wait for a session while the server is silent."""
        return session_seconds(self._breaker.failures)

    def session_failed(self, fault: Transaction) -> None:
        """Note that no session could be opened, or that an open one ended.

        If another host has just sent over this server, only this process leaves it for a while. If
        the server takes no more sessions than this process has, the others go on.
        """
        if self._is_crowded(fault):
            if self._reach.crowd(self._server):
                log_crowded(self._server, why(fault))
            return
        seconds = self._reach.witness_seconds(self._server)
        if self._breaker.was_open or not self._others.sent_elsewhere(self._worker, seconds=seconds):
            self._breaker.trip(Cause.SESSION, fault)
            return
        seconds = self._reach.leave(self._server)
        log_unreached(self._server, why(fault), seconds=seconds)

    def _is_crowded(self, fault: Transaction) -> bool:
        """Return whether the server refused one session, and has just sent over others of ours."""
        if self._breaker.was_open or not fault.is_put_off or not self._has_sessions(self._server):
            return False
        return self._others.just_taken(lambda _: True, seconds=WITNESS) is not None

    def session_opened(self) -> None:
        """Note that a probe without an email opened a session; this may close the breaker."""
        self._judged = True

    def alert_lacking(self, email: ClaimedEmail, result: Transaction) -> None:
        """Raise an alert: an email needs what no server of its route offers."""
        self._lacking.alert(email, result)

    def settle(self) -> None:
        """Store what is undecided, and close a breaker that may close, after the last record."""
        self._alike.settle()
        if not self._breaker.is_tripped:
            if self._judged:
                self._breaker.clear(alert=self._lacking.is_over)
            if self._last is not None:
                self._breaker.keep_suspicion(*self._last)
        self._alike.review()  # also where this batch alone saw too few

    def _suspect(self, email: ClaimedEmail, result: Transaction, untried: Untried) -> Diagnosis:
        """Add a suspect; return who is to blame, or which emails must tell."""
        self._last = (email.id, told(result))
        self._suspicion.add(email.traits, silent=result.verdict is not Verdict.SUSPECT)
        if self._is_silent:
            return self._blame_server(email, result)
        if not self._suspicion.is_enough(untried()):
            return ASIDE
        if self._others.wait(self._suspicion.could_tell):
            return CLASS
        # An email without a reply counts as not fresh: `note_slow` sees a server silent to all.
        is_fresh = email.traits.is_fresh and not result.wait_given_up
        witness = self._witness(OPEN_FIRST if is_fresh else JUST_NOW)
        if witness is None:
            return self._blame_server(email, result)
        if is_fresh:
            return CLASS  # an open breaker would stop all emails, and the server has just taken one
        # A silence blames no email: those set aside before may have had another cause.
        return ASIDE if result.wait_given_up else Diagnosis(Kind.BLAMED, witness=witness)

    def _doubt(self, email: ClaimedEmail, result: Transaction) -> Diagnosis:
        """Note that an email is in doubt: its content left, and no reply tells what became of it.

        The doubt is the email's own, whoever is to blame. But each further email may come to be in
        doubt, too. So a server that takes none gets no more of them.
        """
        self._doubts += 1
        self._suspicion.note_slow(email.traits)  # emails unlike it are sent before its like
        in_a_row = self._doubts
        if not self._judged:  # else the log may not have yet what was taken in between
            in_a_row = max(in_a_row, self._others.doubts_in_a_row() + 1)
        if in_a_row < max(SILENCES, self._slots()):
            return OWN
        self._breaker.trip(Cause.EMAILS, result, suspect_id=email.id)
        return DOUBTS

    def _blame_server(self, email: ClaimedEmail, result: Transaction) -> Diagnosis:
        self._breaker.trip(Cause.EMAILS, result, suspect_id=email.id)
        return SERVER

    def _witness(self, seconds: float) -> int | None:
        """Return an outsider that was taken in the last `seconds`.

        No outsider waits now, but some come and go. Without this, a class would open the breaker
        between any two of them, and later be probed one by one.
        """
        return self._others.just_taken(self._suspicion.could_tell, seconds=seconds)

    def _clear(self) -> None:
        """End the suspicion: the server took or judged an email itself."""
        self._judged = True
        self._last = None
        self._is_silent, self._doubts = False, 0
        self._suspicion.clear()
        self._is_calm = self._breaker.was_closed and not self._alike.is_any


def _earlier_suspicion(breaker: Breaker | None, suspect: Traits | None) -> Suspicion:
    """Return the suspicion that earlier batches left. A probe begins without one."""
    if breaker is None or breaker.is_open:
        return Suspicion()
    if breaker.cause is not Cause.SILENCE:
        return Suspicion(suspect)
    # No failures: other emails were judged since, but emails like this one still come last.
    return Suspicion(suspect if breaker.failures else None, slow=suspect)
