"""Emails that need what a server does not offer: an extension, or room for their size."""

from __future__ import annotations

from ....domain.config.settings import Settings
from ....domain.delivery.blame import Traits
from ....domain.delivery.transaction import Transaction
from ....domain.scheduling import backoff
from ....store.records import ClaimedEmail
from .server_breaker import ServerBreaker


class Lacking:
    """Counts such emails of a batch in a row, and raises an alert when there are many.

    The alert stands until the server takes an email that may need the same.
    """

    def __init__(self, breaker: ServerBreaker, settings: Settings, suspect: Traits | None) -> None:
        """`suspect` is the email that an earlier alert was about, if there is one."""
        self._breaker = breaker
        self._settings = settings
        self._suspect_size = suspect.size if suspect is not None else 0
        self._in_a_row = 0
        self.is_over = False  # the server took an email that may need what it lacked before

    def note(self, email: ClaimedEmail, result: Transaction) -> None:
        """Note an email that needs what the server lacks."""
        self._in_a_row += 1
        if self._in_a_row == self._settings.refused_alike:
            self.alert(email, result)

    def note_other(self) -> None:
        """Note that an email had another result: the count begins anew."""
        self._in_a_row = 0

    def note_taken(self, email: ClaimedEmail, result: Transaction) -> None:
        """Note that the server took this email: is it one that may need what the alert is about?"""
        is_large = 0 < self._suspect_size <= email.size
        envelope = email.envelope
        is_eightbit = envelope.eightbit and not result.converted
        needs = envelope.smtputf8 or is_eightbit or bool(envelope.demands) or is_large
        self.is_over = self.is_over or needs

    def alert(self, email: ClaimedEmail, result: Transaction) -> None:
        """Raise the alert for this email."""
        reason = f"{result.reply.text}; OUTBOX_LIFETIME ends the emails that need it"
        # The alert lasts beyond the email's next try, and then ends: it may no longer be needed.
        seconds = 2.0 * max(backoff.behind(email.waited), self._settings.health_age)
        self._breaker.alert(email.id, reason, seconds=seconds)
