"""Watches one server during a batch: is one email at fault, or does the server take none?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ...domain.delivery.blame import SILENCES, Common, Suspicion, Traits, most_different, patience
from ...domain.delivery.breaker_timing import Cause, probe_seconds, session_seconds
from ...domain.delivery.refusal_streak import RefusalStreak, SystemicRefusal
from ...domain.delivery.transaction import Transaction, Verdict
from ...domain.priority import Priority
from ...domain.scheduling import backoff
from ...domain.scheduling.claim_plan import LaneKey as LanePriority
from ...store.control import circuit_breaker, suspicion
from ...store.control.comparison import (
    just_taken,
    outsider_taken,
    outsider_waits,
    slowest_taken,
    taken_since,
)
from ...store.records import Breaker, ClaimedEmail
from ...store.transitions.uncharge import review
from ..process.retry_writes import until_written
from ..process.runtime import Runtime
from .diagnosis import ASIDE, CLASS, JUDGED, OWN, SERVER, Diagnosis, Kind

Untried = Callable[[], Sequence[Traits]]
"""Returns the traits of the emails that this server is still to get. Called in trouble only."""


class Watch:
    """Watches the results of one batch on one server, and opens or closes the server's breaker."""

    def __init__(
        self,
        runtime: Runtime,
        server: str,
        *,
        breaker: Breaker | None,
        suspect: Traits | None,
        lanes: Callable[[], Iterable[str]],
    ) -> None:
        """`breaker` is its state at the batch's start; `suspect` is the last email that was halted.

        `lanes` returns the lanes that may hold emails for this server. It is called in trouble
        only.
        """
        self._database = runtime.database
        self._settings = runtime.settings
        self._random = runtime.random
        self._server = server
        self._breaker = breaker
        self._lanes = lanes
        is_open = breaker is not None and breaker.is_open
        is_slow = breaker is not None and not is_open and breaker.cause is Cause.SILENCE
        is_cleared = is_slow and breaker is not None and not breaker.failures
        self._suspicion = Suspicion(
            None if is_open or is_cleared else suspect, slow=suspect if is_slow else None
        )
        self._is_silent = False  # the server gives no reply to any email
        # A probe that is refused as the emails before it were is one more of their streak: the
        # refusal does not end the probe's email.
        known = breaker.refusal if breaker is not None and is_open else None
        self._streak = RefusalStreak(self._settings.refused_alike, known=known)
        self._last: tuple[int, str] | None = None  # the last suspect and the server's reply
        self._lacking = 0  # emails in a row that the server lacks something for
        self._tripped = False
        self._judged = False
        # Nearly always True: nothing is held against the server, and a sent email needs no thought.
        self._is_calm = breaker is None and suspect is None
        self._suspect_size = suspect.size if suspect is not None else 0
        self._met_lack = False  # the server took an email that needs what it lacked before

    @property
    def is_choosy(self) -> bool:
        """Whether it matters which email is tried next."""
        return not self._is_calm and (bool(self._suspicion) or self._streak.common is not None)

    def pick(self, untried: Sequence[Traits]) -> int:
        """Return the place of the email to try next: under suspicion the one that differs most."""
        if self._suspicion:
            return self._suspicion.pick(untried, self._random)
        common = self._streak.common
        return most_different(common, untried) if common is not None else 0

    def order(self, untried: Sequence[Traits]) -> list[int]:
        """Return the emails' places in the order to try them: those that may be slow come last."""
        return self._suspicion.order(untried, self._random)

    def note(self, email: ClaimedEmail, result: Transaction, untried: Untried) -> Diagnosis:
        """Note the result of an email on this server; `untried` returns the traits of the rest."""
        if self._is_calm and result.verdict is Verdict.SENT:
            self._judged = True
            return JUDGED
        self._is_calm = False
        match result.verdict:
            case Verdict.HALT:
                self._open(Cause.SESSION, _told(result), result)
                return SERVER
            case Verdict.SUSPECT | Verdict.UNSENT:
                return self._suspect(email, result, untried)
            case Verdict.LACKING:
                return self._lacks(email, result)
        self._lacking = 0
        if result.overdue:
            self._suspect(email, result, untried)
            return SERVER if self._tripped else OWN
        if (acquitted := self._refused_alike(email, result, untried)) is not None:
            return Diagnosis(Kind.SERVER, acquitted=acquitted)
        if result.verdict is Verdict.UNKNOWN:
            return OWN
        self._clear()
        if self._breaker is not None and result.verdict is Verdict.SENT:
            self._met_lack |= self._needs_what_was_lacking(email, result)
        return JUDGED

    def note_slow(self, email: ClaimedEmail) -> None:
        """Note that this email has had no reply for long, so that emails like it come last."""
        self._suspicion.note_slow(email.traits)
        self._is_calm = False
        keep = partial(suspicion.silent, self._database, self._server)
        row = until_written(partial(keep, email_id=email.id, reason=suspicion.SILENCE))
        if row is not None and row.failures >= max(SILENCES, self._settings.slots + 1):
            taken = partial(taken_since, self._database, self._server, row.opened_at)
            self._is_silent = not until_written(taken)

    def gives_up(self, email: ClaimedEmail, seconds: float) -> bool:
        """Return whether to give up an email that has had no reply for so many seconds.

        It is given up only while other emails are due for this server and no process has claimed
        them. A probe gets more time the more probes have failed before it, because no other email
        can go while the breaker is open.
        """
        slowest = until_written(partial(slowest_taken, self._database, self._server))
        least = patience(email.waited, slowest)
        if self._failures:
            least = max(least, probe_seconds(self._failures))
        return seconds >= least and self._waits(lambda _: True)

    @property
    def session_seconds(self) -> float:
        """How many seconds to wait for a session while the server is silent."""
        return session_seconds(self._failures)

    @property
    def _failures(self) -> int:
        """The failures in a row that the breaker has counted; 0 where it is not open."""
        return self._breaker.failures if self._breaker is not None and self._breaker.is_open else 0

    def session_failed(self, fault: Transaction) -> None:
        """Note that no session could be opened."""
        self._open(Cause.SESSION, _told(fault), fault)

    def session_opened(self) -> None:
        """Note that a probe without an email opened a session; this may close the breaker."""
        self._judged = True

    def alert_lacking(self, email: ClaimedEmail, result: Transaction) -> None:
        """Raise an alert: an email needs what no server of its route offers."""
        told = f"{result.reply.text}; OUTBOX_LIFETIME ends the emails that need it"
        # The alert lasts beyond the email's next try, and then ends: it may no longer be needed.
        seconds = 2.0 * max(backoff.behind(email.waited), self._settings.health_age)
        keep = partial(suspicion.suspect, self._database, self._server)
        until_written(partial(keep, email_id=email.id, reason=told, alert=True, seconds=seconds))

    def settle(self) -> None:
        """Store what is undecided, and close a breaker that may close, after the last record."""
        if self._judged and not self._tripped and self._breaker is not None:
            if self._breaker.is_open:
                until_written(lambda: circuit_breaker.close(self._database, self._server))
            else:
                clear = partial(suspicion.clear, self._database, self._server)
                until_written(partial(clear, alert=self._met_lack))
        if self._last is not None and not self._tripped:
            self._keep_suspicion(*self._last)
        if (refusal := self._streak.refusal) is not None:
            # Also where this batch alone saw too few: the attempt log has those of other batches.
            look = partial(review, self._database, self._server, refusal)
            limits = partial(
                look, needed=self._settings.refused_alike, lifetime=self._settings.lifetime
            )
            until_written(partial(limits, outsider_tells=self._outsider_tells))

    def _suspect(self, email: ClaimedEmail, result: Transaction, untried: Untried) -> Diagnosis:
        self._last = (email.id, _told(result))
        self._suspicion.add(email.traits, silent=result.verdict is not Verdict.SUSPECT)
        if self._is_silent:
            self._open(Cause.EMAILS, _told(result), result, suspect_id=email.id)
            return SERVER
        if not self._suspicion.is_enough(untried()):
            return ASIDE
        if self._waits(self._suspicion.could_tell):
            return CLASS
        witness = self._witness(email, result)
        if witness is not None:
            # A silence blames no email: those set aside before may have had another cause.
            return ASIDE if result.given_up else Diagnosis(Kind.BLAMED, witness=witness)
        self._open(Cause.EMAILS, _told(result), result, suspect_id=email.id)
        return SERVER

    def _witness(self, email: ClaimedEmail, result: Transaction) -> int | None:
        """Return an outsider that was taken just now, if this email was held back before.

        No outsider waits now, but some come and go. Without this, a class with only halted emails
        left would be probed one by one. An email without a reply counts as held back: `note_slow`
        detects a server that is silent to all.
        """
        if email.traits.is_fresh and not result.given_up:
            return None
        taken = partial(just_taken, self._database, self._server, self._suspicion.could_tell)
        return until_written(taken)

    def _lacks(self, email: ClaimedEmail, result: Transaction) -> Diagnosis:
        self._lacking += 1
        if self._lacking == self._settings.refused_alike:
            self.alert_lacking(email, result)
        return ASIDE

    def _needs_what_was_lacking(self, email: ClaimedEmail, result: Transaction) -> bool:
        """Return whether this email may need what the alert is about: an extension, or its size."""
        is_large = 0 < self._suspect_size <= email.size
        envelope = email.envelope
        is_eightbit = envelope.eightbit and not result.converted
        return envelope.smtputf8 or is_eightbit or bool(envelope.demands) or is_large

    def _refused_alike(
        self, email: ClaimedEmail, result: Transaction, untried: Untried
    ) -> frozenset[int] | None:
        """Return the emails that the server refused, if it refuses all alike; else None."""
        alike = self._streak.add(
            email.id, result, content=email.content_id, traits=lambda: email.traits
        )
        if alike is None or not (alike.known or self._blames_server(alike, untried)):
            return None
        self._open(
            Cause.EMAILS, alike.reason, suspect_id=email.id, alert=True, refusal=alike.refusal
        )
        return alike.emails

    def _blames_server(self, alike: SystemicRefusal, untried: Untried) -> bool:
        """Return whether the server is to blame for refusals that are alike.

        It is not where all refused emails have a domain in common, or where another sender's email
        shows that only this sender is refused.
        """
        if alike.common.domains:
            return False
        if any(alike.common.lacked_by(email) for email in untried()):
            return False
        return not self._outsider_tells(alike.common)

    def _outsider_tells(self, common: Common) -> bool:
        """Return whether another sender's email was taken lately, or waits and will tell."""
        taken = partial(outsider_taken, self._database, self._server, common)
        return until_written(taken) or self._waits(lambda email: common.lacked_by(email) > 0)

    def _waits(self, is_outsider: Callable[[Traits], bool]) -> bool:
        ways: list[LanePriority] = [(lane, p) for lane in self._lanes() for p in Priority]
        return until_written(lambda: outsider_waits(self._database, ways, is_outsider))

    def _clear(self) -> None:
        self._judged = True
        self._last = None
        self._is_silent = False
        self._suspicion.clear()
        self._is_calm = self._breaker is None and self._streak.refusal is None

    def _open(
        self,
        cause: Cause,
        reason: str,
        result: Transaction | None = None,
        *,
        alert: bool = False,
        **known: object,
    ) -> None:
        self._tripped = True
        alert = alert or (result is not None and result.alert)
        named = result.retry_after if result is not None else None
        trip: Callable[..., None] = partial(circuit_breaker.trip, self._database, self._server)
        until_written(partial(trip, cause=cause, reason=reason, alert=alert, named=named, **known))

    def _keep_suspicion(self, email_id: int, reason: str) -> None:
        if self._breaker is not None and self._breaker.is_open:  # the probe told nothing new
            self._open(Cause.EMAILS, reason, suspect_id=email_id)
            return
        keep = partial(suspicion.suspect, self._database, self._server)
        until_written(partial(keep, email_id=email_id, reason=reason))


def _told(result: Transaction) -> str:
    return f"{result.phase}: {result.reply.code} {result.reply.text}"
