"""Emails that a server refuses alike, one after the other: is the server at fault, or are they?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ....domain.config.settings import Settings
from ....domain.delivery.blame import Traits, most_different
from ....domain.delivery.refusal_fingerprint import is_like, is_of_contents
from ....domain.delivery.refusal_streak import TRIED, RefusalStreak, SystemicRefusal
from ....domain.delivery.transaction import Transaction, Verdict
from ....store.control.blame.own_refusals import SURER
from ....store.records import ClaimedEmail
from .diagnosis import OPEN, OWN, Diagnosis, Kind
from .other_emails import OtherEmails
from .server_breaker import ServerBreaker

_SHARE = 0.8
"""The part of a window's time after which a probe tries no further email."""


class RefusedAlike:
    """The `RefusalStreak` of one batch on one server, and what follows from it."""

    def __init__(
        self,
        breaker: ServerBreaker,
        others: OtherEmails,
        settings: Settings,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._breaker = breaker
        self._others = others
        self._needed = settings.refused_alike
        # A probe that is refused as the emails before it were is one more of their streak: the
        # refusal does not end the probe's email.
        self._streak = RefusalStreak(
            settings.refused_alike, known=breaker.refusal, were_taken=others.contents_taken
        )
        self.note_taken = self._streak.note_taken  # it is called for each email: no call more
        self._pending: tuple[SystemicRefusal, int] | None = None  # a probe that tries further ones
        self._own: dict[tuple[str, int, bool, bool], bool] = {}  # are they, as the log says?
        self._turns = 0  # emails that were taken right behind such a refusal
        self._has_taken = False
        self._clock = clock
        self._random = random
        self._seconds = _SHARE * settings.window_seconds
        self._ends_at: float | None = None  # of a probe, once its session is open

    @property
    def is_any(self) -> bool:
        """Whether emails were refused as others may be, since the server last took one."""
        return bool(self._streak.refusals)

    @property
    def is_choosy(self) -> bool:
        """Whether it matters which email is tried next."""
        return self._streak.is_probing or self._streak.common is not None

    def pick(self, untried: Sequence[Traits]) -> int:
        """Return the place of the email to try next: the one that differs most, else any.

        Those that are refused alike mostly follow each other, so the next one tells least.
        """
        if self._streak.is_probing:
            if self._ends_at is None:
                self._ends_at = self._clock() + self._seconds
            return self._streak.pick(untried)
        common = self._streak.common
        if common is None or not untried:
            return 0
        place = most_different(common, untried)
        if common.lacked_by(untried[place]):
            return place
        return min(int(self._random() * len(untried)), len(untried) - 1)

    def note(
        self, email: ClaimedEmail, result: Transaction, untried: Callable[[], Sequence[Traits]]
    ) -> Diagnosis | None:
        """Note an email's result; return what follows where the server may refuse all alike.

        A probe goes on after a refusal while it has emails that may tell. Each result is the
        email's own for now: no conclusion is drawn from it, and it is taken back if all are alike.
        A recipient who is refused before the server takes an email fails only when refused again:
        the server may just have recovered.
        """
        if result.verdict is Verdict.SENT:
            self._has_taken, self._pending = True, None
            self._turns += self._streak.refusal is not None
        alike = self._streak.add(
            email.id, result, content=email.content_id, traits=lambda: email.traits
        )
        if alike is None and self._pending is not None and not self._goes_on(self._pending[0]):
            alike = self._pending[0]  # an unknown mailbox, for example, tells nothing of contents
        if alike is None:
            return None
        if alike.known and self._goes_on(alike) and self._may_tell(alike, untried()):
            self._pending = alike, email.id
            is_clear = self._has_taken or is_of_contents(alike.refusal)
            return OWN if is_clear else OPEN
        if not self._is_servers_fault(alike, untried):
            self._pending = None
            return None
        self._trip(alike, email.id)
        return Diagnosis(Kind.SERVER, acquitted=alike.emails)

    def _goes_on(self, alike: SystemicRefusal) -> bool:
        """Return whether the last result was such a refusal too, or told nothing."""
        return is_like(self._streak.refusal, alike.refusal)

    def _may_tell(self, alike: SystemicRefusal, untried: Sequence[Traits]) -> bool:
        """Return whether a probe goes on: to what was not tried before, and to `TRIED` at least.

        A server that refuses each recipient so far gets no more than these. It ends before its
        window does: what is recorded would have to be taken back.
        """
        if self._ends_at is not None and self._clock() >= self._ends_at:
            return False
        if untried and len(alike.emails) < TRIED:
            return True
        goes_on = self._has_taken or is_of_contents(alike.refusal)
        return goes_on and any(one.is_fresh for one in untried)

    def settle(self) -> None:
        """Have the probe's breaker stay open, where its last emails had not told otherwise."""
        if self._pending is not None:  # the email that was to tell was withdrawn, for example
            self._trip(*self._pending)

    def review(self) -> None:
        """Look at the log, which has the refusals of other batches too, behind the last record."""
        for refusal in self._streak.refusals:
            tells = partial(self._others.tell_of, refusal=refusal)
            self._breaker.review_refusals(refusal, outsider_tells=tells)

    def _trip(self, alike: SystemicRefusal, email_id: int) -> None:
        self._pending = None
        if self._has_taken and alike.known:  # it takes some: the next probe follows soon
            self._breaker.clear(alert=False)
        self._breaker.trip_for_refusals(alike, suspect_id=email_id)

    def _is_servers_fault(
        self, alike: SystemicRefusal, untried: Callable[[], Sequence[Traits]]
    ) -> bool:
        """Return whether the server is to blame for refusals that are alike.

        A halted server is, until it takes an email. It is not where all refused emails have a
        domain in common, or where another sender's email shows that only this sender is refused.
        Nor is it where the log shows that it takes others in between.
        """
        if alike.known:
            return not (self._has_taken and self._are_own(alike))
        if alike.common.domains:
            return False
        if alike.fresh < SURER * self._needed and self._are_own(alike):
            return False
        if any(alike.common.lacked_by(email) for email in untried()):
            return False
        return not self._others.tell_of(alike.common, alike.refusal)

    def _are_own(self, alike: SystemicRefusal) -> bool:
        refusal, seen, any_fresh = alike.refusal, self._turns, bool(alike.fresh)
        asked = refusal, seen, any_fresh, alike.several
        if asked not in self._own:
            self._own[asked] = self._others.are_own(
                refusal, seen=seen, any_fresh=any_fresh, in_any_words=alike.several
            )
        return self._own[asked]
